#!/bin/sh
set -e
rm -f /run/gpukit.new # of preinst
case "$1" in
remove | purge | 0) # the charm and concourse-ci-machine have their own files in the folder
	[ -e /etc/systemd/system/concourse-pebble.service ] ||
		rm -rf /run/concourse-ci-machine/gpu-attributes.json /run/concourse-ci-machine/gpu-node /run/concourse-ci-machine/locks
	;;
esac
rmdir --ignore-fail-on-non-empty /run/gpukit /run/concourse-ci-machine /var/lib/concourse-ci-machine 2>/dev/null || true
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
udevadm control --reload 2>/dev/null || true
# rocm-gpu-exporter reads the GPUs again.
case "$1" in
remove | 0) ! systemctl --quiet is-active rocm-gpu-exporter.service || systemctl start rocm-gpu-exporter-users.service || true ;;
esac
