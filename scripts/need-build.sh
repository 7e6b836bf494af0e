#!/bin/sh
# need-build.sh FOLDER ARCH: whether the programs can be built for ARCH into FOLDER. What
# can't work is told here, at once, with the way out; so is what takes long. VERSION is
# what the programs will call themselves, MODULES has folders of further modules, and TAKES the
# time of a first build.
set -eu
cd "$(dirname "$0")/.."
folder=$1 arch=$2

stop() {
	printf '%s\n' "$@" >&2
	exit 1
}

case $arch in
amd64 | arm64) ;;
*) stop "The charm is for amd64 and arm64, as Concourse is released for these; this is $arch." \
	"To build for another machine: make charm GOARCH=amd64" ;;
esac

# The folder, or the nearest one that is there, has to take files.
at=$folder
until [ -e "$at" ]; do at=$(dirname "$at"); done
[ -d "$at" ] || stop "$at is no folder, so nothing can be built into $folder."
if ! made=$(mktemp -d "$at/.need-build.XXXXXX" 2>/dev/null); then
	stop "$(id -un) can't write to $(cd "$at" && pwd), where the programs would go." \
		"Work in a copy of your own: cp -r . ~/concourse-ci-machine && cd ~/concourse-ci-machine" \
		"or only build, elsewhere: make build BIN=\$HOME/bin-concourse"
fi
rmdir "$made"

case ${VERSION:-unknown} in
*unknown)
	why=$(git describe --tags --always 2>&1 | head -n 1) || why="git is not installed"
	echo "The programs will call themselves \"${VERSION:-unknown}\": ${why:-git knows no version}" >&2
	case $why in
	*"dubious ownership"*) echo "To trust this clone of $(stat -c %U .)'s: git config --global --add safe.directory $(pwd)" >&2 ;;
	*) echo "To name one: make VERSION=1.2.3 ..." >&2 ;;
	esac ;;
esac

# Separate modules: of a program, and of the caller.
modules="src/gpu-dra-driver ${MODULES:-}"
deps() {
	{
		GOOS=linux GOARCH=$arch go list -buildvcs=false -deps ./src/... github.com/canonical/pebble/cmd/pebble || return
		for module in $modules; do
			GOOS=linux go list -C "$module" -buildvcs=false -deps . || return
		done
	} 3>&1 >/dev/null 2>&3
}
if ! why=$(GOPROXY=off deps); then
	case $why in
	*GOPROXY=off*) ;;
	*) stop "$why" ;;
	esac
	way="Where there is a network, in a copy of this folder: go mod vendor"
	for module in $modules; do way="$way && go mod vendor -C $module"; done
	way="$way; then bring the folder here."
	[ "$(go env GOPROXY)" != off ] || stop "Go modules are missing here, and GOPROXY=off keeps Go from fetching them." \
		"With a network: GOPROXY=https://proxy.golang.org,direct make ..." "$way"
	echo "Fetching the Go modules that are missing here: a minute or more." >&2
	why=$(deps) || stop "$why" "" "Go can't fetch the modules from $(go env GOPROXY)." \
		"By a proxy: https_proxy=http://HOST:PORT make ...; from a mirror: GOPROXY=URL make ..." "$way"
fi
[ -e "$folder/dispatch" ] || echo "Building into $folder for $arch: ${TAKES:-some minutes} at first, seconds later." >&2
