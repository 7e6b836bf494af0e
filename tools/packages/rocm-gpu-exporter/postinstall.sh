#!/bin/sh
# dpkg: configure [OLD VERSION]; rpm: the number of installed versions.
set -e
case "$1" in
configure)
	[ -n "${2:-}" ] && [ ! -e /run/rocm-gpu-exporter.new ] && upgrade=1 || upgrade=
	rm -f /run/rocm-gpu-exporter.new
	;;
abort-*) exit 0 ;;
*) [ "$1" -gt 1 ] 2>/dev/null && upgrade=1 || upgrade= ;;
esac
command -v systemctl >/dev/null || exit 0
# After an upgrade the administrator's choice stays, and a masked unit stays masked.
[ -n "$upgrade" ] || systemctl --quiet enable rocm-gpu-exporter.service || true
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
if [ -n "$upgrade" ]; then
	systemctl try-restart rocm-gpu-exporter.service || true
else
	systemctl start rocm-gpu-exporter.service || true
fi
