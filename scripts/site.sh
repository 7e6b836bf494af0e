#!/bin/sh
# Makes dist/site of docs/ with mkdocs and its theme Material, both packages of Debian and
# Ubuntu. Fails at a link or an asset that leads nowhere.
set -eu
cd "$(dirname "$0")/.."
if ! mkdocs build --help 2>/dev/null | grep -qw material; then
	[ -n "${CI:-}" ] || {
		echo "mkdocs or its theme is missing; run: sudo apt-get update && sudo apt-get install -y mkdocs mkdocs-material" >&2
		exit 1
	}
	sudo apt-get update -q
	sudo apt-get install -y -q --no-install-recommends mkdocs mkdocs-material
fi
# A shallow clone has one date for all pages.
dates() {
	[ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ] || return 0
	git log --format='date %as' --name-only -- docs ./*.md .github/*.md
}
dates | go run -buildvcs=false ./tools/site pages "$(scripts/version.sh)"
out=$(mkdocs build -q --strict -f dist/mkdocs.yml 2>&1) || {
	echo "$out" >&2
	exit 1
}
go run -buildvcs=false ./tools/site check
