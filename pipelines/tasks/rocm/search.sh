#!/bin/sh
# Searches the commits of source/ from OLD to NEW for the one that made an example worse
# (SEARCH=bisect, with the profiles in profiles/ and KEPT), or measures OLD and NEW in turns
# (SEARCH=ab). INSTALL_COMMAND and PROFILE_COMMAND run in a worktree of each commit.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }

[ -x "$GPU_BASELINE" ] || fail "no program $GPU_BASELINE; the charm's is /opt/concourse-ci-machine/tools/gpu-baseline in each task of a unit with GPUs"
command -v git >/dev/null || fail "the image has no git, which checks out the commits to measure"
[ -n "$PROFILE_COMMAND" ] || fail "PROFILE_COMMAND is empty; it has to measure something and write \$PROFILE_JSON"
exports=$("$PYTHON" "$(dirname "$0")/rocm_arches.py" export "$ARCHITECTURES")
eval "$exports"
case $SEARCH in
bisect)
	mkdir -p "$KEPT"
	for profile in profiles/profile-*.json; do
		[ ! -f "$profile" ] || cp "$profile" "$KEPT/"
	done
	KEPT=$(cd "$KEPT" && pwd)
	set -- "$OLD..$NEW" --profiles "$KEPT"
	;;
ab) set -- "$OLD" "$NEW" ;;
*) fail "SEARCH is $SEARCH; want bisect or ab" ;;
esac

# The checkout may be another user's than the task's.
export HOME="${HOME:-/root}"
git config --global --add safe.directory "$PWD/source"
report=$PWD/report/report.md
cd source
status=0
# shellcheck disable=SC2086,SC2016 # FLAGS are several; the inner shell has the commands
"$GPU_BASELINE" "$SEARCH" "$@" --max-duration-pct "$MAX_DURATION_PCT" --max-memory-mb "$MAX_MEMORY_MB" $FLAGS \
	--format markdown -o "$report" -- sh -ec 'sh -ec "$INSTALL_COMMAND"; sh -ec "$PROFILE_COMMAND"' || status=$?
[ ! -f "$report" ] || cat "$report"
case $SEARCH$status in
bisect0 | ab0) ;;
bisect1) fail "no example is worse in $NEW than in $OLD, or one of the two can't be measured" ;;
ab1) fail "$NEW is worse than $OLD by more than the limits" ;;
*3) fail "the answer is not clear: more runs, or commits that can be measured, would tell" ;;
*) fail "gpu-baseline exits with $status" ;;
esac
