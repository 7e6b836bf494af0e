#!/bin/sh
# release.sh VERSION: writes into dist/ what a release is made of: a charm for each
# architecture, the packages, the worker for Windows, what is in them (CycloneDX), checksums, and how to build the same again. The
# same commit gives the same bytes anywhere. It publishes nothing.
set -eu
cd "$(dirname "$0")/.."
version=${1:-} dist=${DIST:-dist}

stop() {
	printf 'cannot release %s: %s\n' "${version:-without a version}" "$1" >&2
	exit 1
}

next=$(cat VERSION)
[ -n "$version" ] || stop "run: make release VERSION=$next"
[ "$version" = "$next" ] || stop "the file VERSION says $next; run: echo $version >VERSION, and commit that"
grep -q "^## \[$version\] - [0-9-]*$" CHANGELOG.md || stop "CHANGELOG.md has no line ## [$version] - YYYY-MM-DD"
commit=$(git rev-parse HEAD) || stop "git tells no commit; build it from a clone"
changed=$(git status --porcelain) || stop "git can't tell what was changed"
[ -z "$changed" ] || stop "the tree differs from its commit; commit or remove: $(echo "$changed" | head -n 5 | cut -c4- | paste -sd ' ')"

# Another Go makes other bytes: a newer one on this machine must not take the place of the
# one that go.mod names.
GOTOOLCHAIN=go$(awk '$1 == "go" { print $2 }' go.mod)
export GOTOOLCHAIN
go version >/dev/null || stop "Go ${GOTOOLCHAIN#go} can't be had; where there is no way to fetch it: https://go.dev/dl/$GOTOOLCHAIN.linux-amd64.tar.gz"

rm -rf "$dist"
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
for arch in amd64 arm64; do
	name=concourse-ci-machine_$arch bin=bin/packages/charm-bin/$arch # from which make packages takes them
	make --no-print-directory charm GOARCH="$arch" BIN="$bin" VERSION="$version" CHARM="$dist/$name.charm"
	go run -C tools/pinned -buildvcs=false ./sbom -version "$version" -arch "$arch" "$PWD/$bin"/* >"$dist/$name.cdx.json"
done
make --no-print-directory packages VERSION="$version" PACKAGE_ARCHS="amd64 arm64" COMPRESSION="${COMPRESSION:-xz}" PACKAGES="$PWD/bin/release-packages" APT="$PWD/bin/release-apt"
for arch in amd64 arm64; do
	go run -C tools/pinned -buildvcs=false ./sbom -version "$version" -arch "$arch" "$PWD/bin/packages/$arch"/* >"$dist/packages_$arch.cdx.json"
done
make --no-print-directory windows VERSION="$version" WINDOWS="$dist/concourse-worker-windows.exe"
go run -C tools/pinned -buildvcs=false ./sbom -version "$version" -arch amd64 "$dist/concourse-worker-windows.exe" >"$dist/windows_amd64.cdx.json"
mv bin/release-packages/*.deb bin/release-packages/*.rpm "$dist/"
cat >"$dist/PROVENANCE.md" <<TEXT
# concourse-ci-machine $version

Built from commit $commit of $(git show -s --format=%cI HEAD) by $(go env GOVERSION).
The same commit gives the same bytes, whoever builds it:

    git clone --branch v$version <repository> concourse-ci-machine
    cd concourse-ci-machine
    make release VERSION=$version
    cd dist && sha256sum --check SHA256SUMS

The modules in each program, with their checksums, are in its .cdx.json; Go held them
against go.sum. .github/workflows/release.yml builds releases and has them attested.
TEXT
cd "$dist"
sha256sum -- * >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS
ls -l
