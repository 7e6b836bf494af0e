#!/bin/sh
# dpkg: configure [OLD VERSION]; rpm: the number of installed versions.
set -e
case "$1" in
configure)
	[ -n "${2:-}" ] && [ ! -e /run/gpukit.new ] && upgrade=1 || upgrade=
	rm -f /run/gpukit.new
	;;
abort-*) exit 0 ;;
*) [ "$1" -gt 1 ] 2>/dev/null && upgrade=1 || upgrade= ;;
esac
command -v systemctl >/dev/null || exit 0
# After an upgrade the administrator's choice stays, and a masked unit stays masked.
for unit in gpukit-cdi.path gpukit-cdi.service gpukit-run.socket gpukit-gpus.service gpukit-records.service; do
	[ -n "$upgrade" ] || systemctl --quiet enable "$unit" || true
done
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
udevadm control --reload 2>/dev/null || true
if [ -n "$upgrade" ]; then
	# Runs keep their GPUs, and those that wait keep their place.
	systemctl try-restart gpukit-cdi.path gpukit-cdi.timer gpukit-run.service gpukit-gpus.service \
		gpukit-records.service || true
else
	systemctl start gpukit-cdi.path gpukit-run.socket || true
	# The GPUs have one owner: that of rocm-gpu-exporter ends.
	systemctl try-restart rocm-gpu-exporter-users.service 2>/dev/null || true # it may be missing
	systemctl start gpukit-gpus.service gpukit-records.service || true
fi
# Now, so that the next command finds the names of the GPUs.
systemctl restart gpukit-cdi.service || true
