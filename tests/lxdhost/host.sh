#!/bin/sh
# The host of one LXD daemon: first process of fresh mount, network, process,
# IPC and UTS namespaces. /dev is a new one without /dev/kfd; /sys shows this
# network namespace; /run is empty. Everything goes with this process.
# LXD_DIR is where the daemon keeps everything. GPUS is a script that adds GPUs
# to the host, or unset. With CGROUP=2 the host has the unified hierarchy of
# control groups alone, as an Ubuntu of today.
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/lxc /run/cgroup /run/dev
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
if [ "${CGROUP:-}" = 2 ]; then
	umount -R /run/cgroup
	mount -t cgroup2 none /sys/fs/cgroup
else
	mount --rbind /run/cgroup /sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs /run/dev
cd /run/dev
mkdir pts shm net mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts pts
ln -s pts/ptmx ptmx
ln -s /proc/self/fd fd
while read -r name mode major minor; do
	mknod -m "$mode" "$name" c "$major" "$minor"
done <<NODES
null 666 1 3
zero 666 1 5
full 666 1 7
random 666 1 8
urandom 666 1 9
tty 666 5 0
console 600 5 1
fuse 666 10 229
NODES
cd /
mount --move /run/dev /dev
# shellcheck source=tests/lxdhost/gpus.sh
[ -z "${GPUS:-}" ] || . "$GPUS"
exec lxd --group root
