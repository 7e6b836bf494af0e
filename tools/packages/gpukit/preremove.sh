#!/bin/sh
# dpkg: remove; rpm: the number of versions that stay. An upgrade changes nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if command -v systemctl >/dev/null; then
	if [ -d /run/systemd/system ]; then
		systemctl stop gpukit-cdi.path gpukit-cdi.timer gpukit-cdi.service gpukit-run.socket gpukit-run.service \
			gpukit-gpus.service gpukit-records.service || true
	fi
	systemctl --quiet disable gpukit-cdi.path gpukit-cdi.service gpukit-run.socket gpukit-gpus.service \
		gpukit-records.service || true
fi
# Engines must not name a runtime that does not exist. A failure must not keep the package.
gpukit undo-all || echo "gpukit: see above for what is left" >&2
