#!/bin/sh
set -e
rm -f /run/gpukit.new /run/concourse-ci-machine/gpu-attributes.json # a marker of preinst, a cache
rmdir --ignore-fail-on-non-empty /run/gpukit /run/concourse-ci-machine /var/lib/concourse-ci-machine 2>/dev/null || true
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
udevadm control --reload 2>/dev/null || true
# rocm-gpu-exporter reads the GPUs again.
case "$1" in
remove | 0) ! systemctl --quiet is-active rocm-gpu-exporter.service || systemctl start rocm-gpu-exporter-users.service || true ;;
esac
