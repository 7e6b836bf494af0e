#!/bin/sh
# Takes lxd's place at the end of tests/lxd/testdata/host.sh: adds made-up cards
# to that host's /sys/class and nodes to its /dev, and starts the real one.
# FAKE is a folder for the cards' files, REAL_LXD the daemon.
set -eu
number=0
while read -r address vendor driver; do
	dir=$FAKE/dev/$address
	mkdir -p "$FAKE/drivers/$driver" "$FAKE/class/drm" "$FAKE/bus/pci/devices" "$dir/drm" /dev/dri
	ln -s "$dir" "$FAKE/bus/pci/devices/$address"
	echo "0x$vendor" >"$dir/vendor"
	echo 0x74a1 >"$dir/device"
	echo -1 >"$dir/numa_node"
	ln -s "$FAKE/drivers/$driver" "$dir/driver"
	ln -s /sys/bus/pci "$dir/subsystem"
	for node in "card$number:$number" "renderD$((128 + number)):$((128 + number))"; do
		mkdir "$dir/drm/${node%:*}"
		echo "226:${node#*:}" >"$dir/drm/${node%:*}/dev"
		ln -s "$dir" "$dir/drm/${node%:*}/device"
		ln -s "$dir/drm/${node%:*}" "$FAKE/class/drm/${node%:*}"
		mknod -m 660 "/dev/dri/${node%:*}" c 226 "${node#*:}"
	done
	number=$((number + 1))
done <<CARDS
0000:0a:00.0 10de nouveau
0000:03:00.0 1002 amdgpu
0000:83:00.0 1002 amdgpu
CARDS
mknod -m 666 /dev/kfd c 1 3 # null's numbers: every kernel has a driver for them
# A whole sysfs has to stay in sight, or containers may not mount one.
mkdir -p /run/visible-sys /run/net
mount -t sysfs sysfs /run/visible-sys
mount --bind /sys/class/net /run/net
mount -t overlay overlay -o "lowerdir=$FAKE/class:/sys/class" /sys/class
mount --move /run/net /sys/class/net
mount -t overlay overlay -o "lowerdir=$FAKE/bus:/sys/bus" /sys/bus
exec "$REAL_LXD" "$@"
