# shellcheck shell=sh
# Read by host.sh: gives the host the GPUs of the tree in FAKE. FAKE/sys lies
# over the host's own sysfs, in /run/fake too, for units to be given; FAKE/nodes
# lists the nodes, "path major minor".
for dir in class bus module devices; do
	mkdir -p "/run/fake/$dir"
	mount -t overlay overlay -o "lowerdir=$FAKE/sys/$dir:/sys/$dir" "/run/fake/$dir"
done
# A whole sysfs has to stay in sight, or containers may not mount one.
mkdir -p /run/visible-sys /run/net
mount -t sysfs sysfs /run/visible-sys
mount --bind /sys/class/net /run/net
for dir in class bus devices/pci0000:00; do
	mount --bind "/run/fake/$dir" "/sys/$dir"
done
mount --move /run/net /sys/class/net
mkdir -p /dev/dri
while read -r path major minor; do
	mknod -m 660 "$path" c "$major" "$minor"
done <"$FAKE/nodes"
