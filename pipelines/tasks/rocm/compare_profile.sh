#!/bin/sh
# Compares the profile in profile/ with the one in baseline/ and fails beyond the
# limits. The baseline that holds from now on goes to next/, the comparison to report/.
# baseline-0.json is what the resource gives while nothing is stored: then, and with
# ACCEPT=true, the profile becomes the baseline.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
one() {
	if [ $# != 1 ] || [ ! -f "$1" ]; then fail "want one file, have: $*"; fi
	echo "$1"
}
compare() { "$GPU_BASELINE" compare "$@" --max-duration-pct "$MAX_DURATION_PCT" --max-memory-mb "$MAX_MEMORY_MB"; }

[ -x "$GPU_BASELINE" ] || fail "no program $GPU_BASELINE; the charm's is /opt/concourse-ci-machine/tools/gpu-baseline in each task of a unit with GPUs, unless its option gpu-tools is false"
profile=$(one profile/profile-*.json)
baseline=$(one baseline/baseline-*.json)
if [ "$ACCEPT" = true ] || [ "$baseline" = baseline/baseline-0.json ]; then
	# With itself: a file that is no profile must not become the baseline, nor one
	# with an example that failed, which would never be compared.
	compare "$profile" "$profile" --format json >report/report.json || fail "$profile can't be a baseline (exit status $?)"
	! grep -q '"result": *"failing"' report/report.json || fail "$profile can't be a baseline: an example failed"
	cp "$profile" "next/baseline-$(date -u +%Y%m%d%H%M%S).json"
	if [ "$ACCEPT" = true ]; then
		echo "accepted: $profile is the baseline from now on"
	else
		echo "no baseline yet: $profile becomes the baseline, and nothing was compared"
	fi
	exit 0
fi
status=0
compare "$baseline" "$profile" --format markdown >report/report.md || status=$?
cat report/report.md
cp "$baseline" next/
case $status in
0) ;;
1) fail "$profile is worse than $baseline by more than $MAX_DURATION_PCT % or $MAX_MEMORY_MB MB, or an example failed; where that is meant, run the job accept-baseline" ;;
*) fail "gpu-baseline exits with $status" ;;
esac
