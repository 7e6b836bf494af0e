#!/bin/sh
# dpkg: remove; rpm: the number of versions that stay. An upgrade changes nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
command -v systemctl >/dev/null || exit 0
if [ -d /run/systemd/system ]; then
	systemctl stop rocm-gpu-exporter.service rocm-gpu-exporter-users.service || true
fi
systemctl --quiet disable rocm-gpu-exporter.service || true
