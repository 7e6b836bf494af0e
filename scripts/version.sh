#!/bin/sh
# Prints the version of this tree: that of the file VERSION where its tag is on this very
# commit and nothing was changed, otherwise the next one with time and hash of the commit, so
# that packages of a later commit are newer. Without git it has "unknown".
set -eu
cd "$(dirname "$0")/.."
next=$(cat VERSION)
at=$(git describe --always --dirty --exclude '*' 2>/dev/null) || at=unknown
tag=$(git describe --tags --exact-match --match "v$next" 2>/dev/null) || tag=none
case $tag:$at in
none:* | *-dirty) echo "$next-dev.$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null || echo 0)+$at" ;;
*) echo "$next" ;;
esac
