#!/bin/sh
# Compares the profile in profile/ with the one in baseline/ and fails beyond the
# limits. The baseline that holds from now on goes to next/, the comparison to report/, also
# as report-<time>-<commit>.tar with the profile.
# baseline-0.json is what the resource gives while nothing is stored: then, and with
# ACCEPT=true, the profile becomes the baseline; with ACCEPT=never none does.
# A profile in reference/, such as one of another GPU, is compared as well, and decides
# nothing unless REFERENCE_LIMITS has gpu-baseline's flags of limits.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
one() {
	if [ $# != 1 ] || [ ! -f "$1" ]; then fail "want one file, have: $*"; fi
	echo "$1"
}
limited() { "$GPU_BASELINE" compare "$@" --max-duration-pct "$MAX_DURATION_PCT" --max-memory-mb "$MAX_MEMORY_MB"; }
# What a reference has and the profile lacks is no fault of the commit. The limits are words.
# shellcheck disable=SC2086
referred() { "$GPU_BASELINE" compare "$reference" "$profile" --allow-missing $REFERENCE_LIMITS "$@"; }
# verdict fails by the exit status of gpu-baseline, with this text where it is 1.
verdict() {
	case $1 in
	0) ;;
	1) fail "$2" ;;
	*) fail "gpu-baseline exits with $1" ;;
	esac
}

[ -x "$GPU_BASELINE" ] || fail "no program $GPU_BASELINE; the charm's is /opt/concourse-ci-machine/tools/gpu-baseline in each task of a unit with GPUs"
profile=$(one profile/profile-*.json)
baseline=$(one baseline/baseline-*.json)
worse=0 behind=0 reference=
if [ "$ACCEPT" = true ] || [ "$baseline" = baseline/baseline-0.json ]; then
	# With itself: a file that is no profile must not become the baseline, nor one
	# with an example that failed, which would never be compared.
	limited "$profile" "$profile" --format json >report/report.json || fail "$profile can't be a baseline (exit status $?)"
	! grep -q '"result": *"failing"' report/report.json || fail "$profile can't be a baseline: an example failed"
	[ "$ACCEPT" = never ] || cp "$profile" "next/baseline-$(date -u +%Y%m%d%H%M%S).json"
	case $ACCEPT in
	true) echo "accepted: $profile is the baseline from now on" && exit ;;
	never) echo "no baseline yet: nothing was compared" ;;
	*) echo "no baseline yet: $profile becomes the baseline, and nothing was compared" ;;
	esac
	limited none "$profile" --allow-no-base --format markdown >report/report.md
else
	limited "$baseline" "$profile" --format markdown >report/report.md || worse=$?
	cp "$baseline" next/
fi
[ ! -d reference ] || reference=$(one reference/*.json)
case $reference in
"" | *-0.json) ;; # nothing is stored
*)
	referred --format json >report/reference.json || behind=$?
	same=$behind
	if [ -z "$REFERENCE_LIMITS" ] && [ $behind = 1 ]; then behind=0; fi
	printf '\nWith a reference (%s):\n\n' "${REFERENCE_LIMITS:-no limits, it decides nothing}" >>report/report.md
	referred --format markdown >>report/report.md || [ $? = "$same" ] # as above
	;;
esac
cat report/report.md
# A comment has 65,536 characters at most.
if [ "$(wc -c <report/report.md)" -lt 60000 ]; then
	cp report/report.md report/comment.md
else
	{ head -n 1 report/report.md && echo "The table is in the build's output: it is too long for a comment."; } >report/comment.md
fi
# Under the profile's own time and commit, for a release.
cp "$profile" report/profile.json
name=report-${profile#profile/profile-}
set -- profile.json report.md
[ ! -f report/reference.json ] || set -- "$@" reference.json
tar -C report -cf "report/${name%.json}.tar" "$@"
verdict $worse "$profile is worse than $baseline by more than $MAX_DURATION_PCT % or $MAX_MEMORY_MB MB, or an example failed; where that is meant, run the job accept-baseline"
verdict $behind "$profile is worse than the reference $reference by more than $REFERENCE_LIMITS, or an example failed"
