#!/bin/sh
# Makes dist/site of docs/ with Debian's and Ubuntu's mkdocs, and stops at a link that leads
# nowhere. Links to files of the repository beside docs/ lead to where it is published.
set -eu
cd "$(dirname "$0")/.."
if ! command -v mkdocs >/dev/null; then
	[ -n "${CI:-}" ] || {
		echo "mkdocs is missing; run: sudo apt-get update && sudo apt-get install -y mkdocs" >&2
		exit 1
	}
	sudo apt-get update -q
	sudo apt-get install -y -q --no-install-recommends mkdocs
fi
source=$(awk '$1 == "repo_url:" { print $2 }' mkdocs.yml)
rm -rf dist/site-docs dist/site
mkdir -p dist
cp -r docs dist/site-docs
for page in dist/site-docs/*/*.md; do

	sed -E -i "s|\]\(\.\./\.\./([^)]*)\)|]($source/blob/main/\1)|g" "$page"
done
sed -E -i "s|\]\(\.\./([^)]*)\)|]($source/blob/main/\1)|g" dist/site-docs/index.md
out=$(mkdocs build --strict 2>&1) || {
	echo "$out" >&2
	exit 1
}
for page in $(cd dist/site-docs && find . -name '*.md'); do
	[ -s "dist/site/${page%.md}/index.html" ] || [ -s "dist/site/${page%.md}.html" ] || [ "$page" = ./index.md ] || {
		echo "mkdocs made no page of docs/${page#./}" >&2
		exit 1
	}
done
echo "dist/site: $(find dist/site -name '*.html' | wc -l) pages"
