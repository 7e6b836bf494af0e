#!/bin/sh
# publish.sh VERSION: makes what make release wrote into dist/ a release on GitHub, with the
# changelog's part on it. Needs gh, and GH_TOKEN with the right to write contents.
set -eu
cd "$(dirname "$0")/.."
version=$1

stop() {
	printf 'cannot publish %s: %s\n' "$version" "$1" >&2
	exit 1
}

command -v gh >/dev/null || stop "gh is missing, see https://cli.github.com"
grep -qsx "# concourse-ci-machine $version" dist/PROVENANCE.md || stop "dist/ is not of it; run: make release VERSION=$version"
(cd dist && sha256sum --check --quiet --strict SHA256SUMS) || stop "dist/ was changed since; run: make release VERSION=$version"
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
awk -v head="## [$version]" 'index($0, head) == 1 { on = 1; next } /^(## )?\[/ { on = 0 } /^## / { on = 0 } on' CHANGELOG.md >"$notes"
gh release create "v$version" --verify-tag --title "$version" --notes-file "$notes" dist/PROVENANCE.md dist/SHA256SUMS dist/*.charm dist/*.deb dist/*.rpm dist/*.exe dist/*.json
