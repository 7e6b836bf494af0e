#!/bin/sh
# boot.sh ROOT TAR IN OUT FIXTURE: boots a private Debian with systemd and the sysfs of a
# fixture host. It runs /out/script and powers off.
set -e
root=$1 tar=$2 in=$3 out=$4 fixture=$5
mount -t tmpfs -o mode=755 tmpfs "$root"
tar --numeric-owner --xattrs --xattrs-include='*' -C "$root" -xpf "$tar"
mkdir -p "$root/in" "$root/out" "$root/dev" "$root/run" "$root/old"
mount --bind "$in" "$root/in"; mount --bind "$out" "$root/out"
mount --bind "$fixture/sys" "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/dri" "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
for n in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$root/dev/${n%%:*}" c 1 "${n##*:}"; done
mknod -m 666 "$root/dev/tty" c 5 0
mknod -m 666 "$root/dev/kfd" c 235 0
ln -s /proc/self/fd "$root/dev/fd"; ln -s pts/ptmx "$root/dev/ptmx"
for n in 128 129 130 131; do [ ! -e "$root/sys/class/drm/renderD$n" ] || mknod -m 666 "$root/dev/dri/renderD$n" c 226 $n; done
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
mkdir -p "$root/sys/fs/cgroup"
for u in sys-kernel-debug.mount sys-kernel-tracing.mount systemd-journald-audit.socket; do ln -s /dev/null "$root/etc/systemd/system/$u"; done
cat >"$root/etc/systemd/system/script.service" <<'U'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sh -e /out/script; echo $? >/out/code'
ExecStopPost=/bin/systemctl --no-block poweroff
TimeoutStartSec=5min
U
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../script.service "$root/etc/systemd/system/multi-user.target.wants/script.service"
groups=$(mktemp -d)
mount -t cgroup2 cgroup2 "$groups"
mkdir "$groups/packages-test-$(basename "$groups")"; echo 0 >"$groups/packages-test-$(basename "$groups")/cgroup.procs"
export root fixture
set +e
# The variables are of the inner shell.
# shellcheck disable=SC2016
timeout -k 5 400 unshare --cgroup --mount --pid --net --ipc --uts --fork --kill-child --propagation private sh -ec '
mount -t proc proc "$root/proc"
mount --bind "$fixture/proc/devices" "$root/proc/devices"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
ip link set lo up
cd "$root"
pivot_root . old
umount -l /old
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=0 </dev/null >/out/console 2>&1
'
code=$?
echo 0 >"$groups/cgroup.procs"
find "$groups/packages-test-$(basename "$groups")" -depth -type d -exec rmdir {} +
umount "$groups"; rmdir "$groups"
exit $code
