#!/bin/bash
# Read by deploy-test.sh: how commands, waits and checks are run, shown and, with
# --dry-run, only shown.

# run shows a command and runs it. Never one with a secret in it.
run() {
	echo "+ $(show "$@")"
	[[ -z $DRY ]] || return 0
	"$@"
}

# retry TIMES COMMAND...: runs it until it succeeds, TIMES times at most. Its exit
# status is taken where `set -e` can't end the script before it is looked at; a
# function run in this way has no `set -e` either and must check for itself.
retry() {
	local times=$1 try code=0
	shift
	for ((try = 1; try <= times; try++)); do
		if "$@"; then return 0; else code=$?; fi
		note "$1 ${2:-} failed with exit status $code (try $try of $times)"
		((try == times)) || sleep "$POLL_SECONDS"
	done
	return "$code"
}

# run_retried is run for what may fail for a moment.
run_retried() {
	echo "+ $(show "$@")"
	[[ -z $DRY ]] || return 0
	retry 3 "$@"
}

# wait_until WHAT FUNCTION ARGS...: calls it until it succeeds. What it prints
# is what is still missing, and is shown whenever it changes, with what the
# model's units themselves say that keeps them.
wait_until() {
	local what=$1 end=$((SECONDS + WAIT_SECONDS)) now='' before='' reason
	shift
	echo "  wait until $what"
	[[ -z $DRY ]] || return 0
	until now=$("$@"); do
		now=${now//$'\n'/; }
		while read -r reason; do
			[[ -z $reason || $now == *"$reason"* ]] || now+=${now:+; }$reason
		done <<<"$(kept_from_work)"
		if [[ $now != "$before" ]]; then note "    not yet: $now"; fi
		before=$now
		((SECONDS < end)) || die "$what: not after $WAIT_SECONDS s (WAIT_SECONDS); last: ${now:-nothing}"
		sleep "$POLL_SECONDS"
	done
}

# check WHAT COMMAND...: has to succeed now.
check() {
	echo "  check that $1"
	[[ -z $DRY ]] || return 0
	if "${@:2}"; then return 0; fi
	[[ ! -s $WORK/stderr ]] || cat "$WORK/stderr" >&2
	die "not so: $1"
}

# skip REASON ends the step, which then counts neither as passed nor as failed.
readonly SKIPPED=77
skip() {
	note "  skipped: $*"
	exit "$SKIPPED"
}
