#!/bin/sh
# dpkg: remove; rpm: the number of versions that stay. An upgrade changes nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -e /var/lib/concourse-ci-machine/machine.json ] || exit 0
echo "concourse-ci-machine: the CI stops now, and its data stays; to remove the data too, install the package again and run: concourse-ci-machine purge" >&2
concourse-ci-machine down || echo "concourse-ci-machine: see above for what still runs" >&2
