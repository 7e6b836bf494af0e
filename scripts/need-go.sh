#!/bin/sh
# Checks that the Go that go.mod names can be had; where not, says what to run
# and stops with exit 1. Go 1.21 and newer fetch another version by themselves.
set -eu
cd "$(dirname "$0")/.."
want=$(awk '$1 == "go" { print $2 }' go.mod)
arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')

advise() {
	cat >&2 <<TEXT
$1
This project needs Go $want, or any Go from 1.21 on that may fetch it. Install one:
  Ubuntu:               sudo snap install go --classic
  Ubuntu 24.04, newer:  sudo apt-get update && sudo apt-get install -y golang-go git
  Debian 13, newer:     sudo apt-get update && sudo apt-get install -y golang-go git
  Debian 12, any other: sudo apt-get update && sudo apt-get install -y wget ca-certificates git
                        wget -O- https://go.dev/dl/go$want.linux-$arch.tar.gz | sudo tar -C /usr/local -xz
                        export PATH=/usr/local/go/bin:\$PATH
TEXT
	exit 1
}

command -v go >/dev/null || advise "Go is not installed."
have=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
minor=$(echo "$have" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
if [ -n "$minor" ] && [ "$minor" -lt 21 ]; then
	advise "$have ($(command -v go)) is too old to fetch another version."
fi
# `go version` alone does not look at go.mod
if ! out=$(go list -m 2>&1); then
	case $out in
	*GOTOOLCHAIN=local*)
		echo "$have is older than Go $want, and GOTOOLCHAIN=local keeps it from fetching that." >&2
		echo "Run make as: GOTOOLCHAIN=auto make ..." >&2
		exit 1 ;;
	*) advise "$have can't fetch Go $want: $out" ;;
	esac
fi
