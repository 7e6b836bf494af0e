#!/bin/sh
# dpkg: configure [OLD VERSION]; rpm: the number of installed versions.
set -e
case "$1" in
configure) [ -n "${2:-}" ] && upgrade=1 || upgrade= ;;
abort-*) exit 0 ;;
*) [ "$1" -gt 1 ] 2>/dev/null && upgrade=1 || upgrade= ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
# The new programs take over in the background. Running builds go on.
[ -z "$upgrade" ] || [ ! -e /var/lib/concourse-ci-machine/machine.json ] ||
	systemctl start --no-block concourse-ci-machine.service || true
