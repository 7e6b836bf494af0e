#!/bin/sh
# Prints the version of this tree: that of the file VERSION where its tag is on this very
# commit and nothing was changed, else that one still to come, with the commit. "unknown" is
# in it where git tells nothing.
set -eu
cd "$(dirname "$0")/.."
next=$(cat VERSION)
at=$(git describe --always --dirty --exclude '*' 2>/dev/null) || at=unknown
tag=$(git describe --tags --exact-match --match "v$next" 2>/dev/null) || tag=none
case $tag:$at in
none:* | *-dirty) echo "$next-dev+$at" ;;
*) echo "$next" ;;
esac
