#!/bin/sh
# Releases the wheels of a tag v<version> on GitHub, with what was measured: linux-build/ and
# windows-build/ are what the jobs handed over. Needs gh, and GH_TOKEN with the right to write contents.
set -eu
fail() {
	echo "::error title=The wheels are not released::$*"
	exit 1
}
command -v gh >/dev/null || fail "The runner of build-tags has no program gh. Install it, or take a runner of GitHub."
# Of both platforms the wheel for Windows is first, as in the pipeline for Windows.
if [ -d windows-build ]; then
	mv windows-build/built wheels
	[ ! -d linux-build ] || mv linux-build/built linux-wheels
else
	mv linux-build/built wheels
fi
if [ -d linux-build ]; then mv linux-build/report reports; else mv windows-build/report reports; fi
mkdir -p tag/.git
printf '%s' "$GITHUB_SHA" >tag/.git/HEAD
printf '%s' "$GITHUB_REF_NAME" >tag/.git/ref
python3 "$(dirname "$0")/../tasks/rocm/prepare_release.py" ||
	fail "The tag and the wheel do not match; see the output of this step."
if ! gh release view "$GITHUB_REF_NAME" >/dev/null 2>&1; then
	gh release create "$GITHUB_REF_NAME" --verify-tag --title "$GITHUB_REF_NAME" --notes-file release/body.md ||
		fail "Give the calling job the permission contents: write."
fi
# A job that is run again replaces its files.
gh release upload "$GITHUB_REF_NAME" --clobber release/files/* ||
	fail "Give the calling job the permission contents: write."
