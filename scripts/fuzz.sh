#!/bin/sh
# Runs every fuzz function of the module for the given time, one by one.
set -eu
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -r --include='*_test.go' '^func Fuzz' internal src tests | sort |
	sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9_]*\)(.*|\1 \2|' |
	while read -r folder name; do
		echo "== $folder $name"
		go test -buildvcs=false -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "./$folder"
	done
