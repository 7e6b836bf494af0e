#!/bin/sh
set -e
rm -f /run/gpukit.new # of preinst
case "$1" in
purge | 0) # After a removal alone, running containers keep their leases. A unit has other files there.
	[ -e /etc/systemd/system/concourse-pebble.service ] || [ ! -d /run/concourse-ci-machine ] ||
		(cd /run/concourse-ci-machine && rm -rf gpu-attributes.json gpu-health-check gpu-leases gpu-node locks wrapper)
	;;
esac
rmdir --ignore-fail-on-non-empty /run/gpukit /var/lib/concourse-ci-machine 2>/dev/null || true
# The services of the exporter may be about to write there.
[ -e /usr/bin/rocm-exporter ] || rmdir --ignore-fail-on-non-empty /run/concourse-ci-machine 2>/dev/null || true
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
udevadm control --reload 2>/dev/null || true
# rocm-gpu-exporter reads the GPUs again.
case "$1" in
remove | 0) ! systemctl --quiet is-active rocm-gpu-exporter.service || systemctl start rocm-gpu-exporter-users.service || true ;;
esac
