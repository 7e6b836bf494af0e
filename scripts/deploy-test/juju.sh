#!/bin/bash
# Read by deploy-test.sh: what Juju says of the model.
# shellcheck disable=SC2016 # the variables in single quotes are jq's

# status_of prints the model's status; an error of Juju's is no status.
status_of() { retry 3 juju status --model "$MODEL" --format=json; }

apps() {
	if [[ $WEB_APP == "$WORKER_APP" ]]; then echo "$WEB_APP"; else echo "$WEB_APP $WORKER_APP"; fi
}

# app_units APP: each unit's name, whether it leads, its address, a line each.
app_units() {
	status_of | jq -r --arg app "$1" '.applications[$app].units // {} | to_entries[]
		| [.key, (.value.leader == true), (.value["public-address"] // "-")] | @tsv'
}

# web_unit is the leader of the web; with mode=auto that is the web.
web_unit() {
	if [[ -n $DRY ]]; then echo "$WEB_APP/0"; else app_units "$WEB_APP" | awk -F '\t' '$2 == "true" && !n++ { print $1 }'; fi
}

web_url() {
	local address
	if [[ -n $DRY ]]; then echo "http://WEB:8080"; return; fi
	address=$(app_units "$WEB_APP" | awk -F '\t' '$2 == "true" && !n++ { print $3 }')
	[[ -n $address && $address != - ]] || die "the web has no address; see: juju status --model $MODEL"
	if [[ $address == *:* ]]; then address="[$address]"; fi
	echo "http://$address:8080"
}

# worker_units: with mode=auto the leader is none.
worker_units() {
	if [[ -n $DRY ]]; then
		if [[ $WEB_APP == "$WORKER_APP" ]]; then echo "$WORKER_APP/1"; else echo "$WORKER_APP/0"; fi
		return
	fi
	app_units "$WORKER_APP" | awk -F '\t' -v auto="$([[ $WEB_APP != "$WORKER_APP" ]] || echo 1)" '!auto || $2 != "true" { print $1 }'
}

worker_unit() {
	local all
	all=$(worker_units) || return
	[[ -n $all ]] || die "there is no worker; see: juju status --model $MODEL"
	echo "${all%%$'\n'*}"
}

# ready VERSION: every unit of the test's applications is active with a text of
# its own readiness, in that version where one is given, and no machine is down.
ready() {
	local status missing
	status=$(status_of) || { echo "juju status fails"; return 1; }
	missing=$(jq -r --arg apps "$(apps)" --arg version "$1" '
		($apps | split(" ")) as $apps | .machines as $machines
		| ($apps[] as $a | select((.applications[$a].units // {}) == {}) | $a + " has no units"),
		  (.applications | to_entries[] | .key as $app | .value.units // {} | to_entries[]
			| .key as $unit | .value | .["workload-status"] as $s
			| select($s.current != "active" or (($apps | index($app)) != null and
				(($s.message // "" | test("^(Worker|Web server) ready \\(v" + ($version | gsub("\\."; "\\.")))) | not)))
			| $unit + " " + ($s.current // "?") + ": " + ($s.message // "")),
		  ($machines // {} | to_entries[] | select(.value["juju-status"].current | . == "down" or . == "error")
			| "machine " + .key + " is " + .value["juju-status"].current)' <<<"$status") || { echo "juju status is no JSON"; return 1; }
	echo "$missing"
	[[ -z $missing ]]
}

# kept_from_work: each unit that is blocked or whose hook failed, with its reason.
kept_from_work() {
	juju status --model "$MODEL" --format=json 2>/dev/null | jq -r '.applications // {} | .[].units // {} | to_entries[]
		| .key as $unit | .value["workload-status"] | select(.current == "blocked" or .current == "error")
		| $unit + " " + .current + ": " + (.message // "")'
}

# says UNIT TEXT: the unit is active and its status has the text.
says() {
	local now
	now=$(status_of | jq -r --arg unit "$1" '[.applications[].units // {} | .[$unit] // empty] | first // {}
		| .["workload-status"] | (.current // "?") + ": " + (.message // "")') || { echo "juju status fails"; return 1; }
	echo "$1 $now"
	[[ $now == "active: "*"$2"* ]]
}

# on_unit UNIT COMMAND-LINE: as root on the unit; prints what it printed, and
# fails where that failed.
on_unit() {
	local out
	# What juju says of a failed command is no news while we wait for it.
	out=$(juju exec --model "$MODEL" --format=json --unit "$1" -- "$2" 2>"$WORK/stderr") || return
	jq -r '.[].results.stdout // ""' <<<"$out" | sed '/^$/d'
	[[ $(jq -r '.[].results["return-code"]' <<<"$out") == 0 ]]
}

# action UNIT NAME: has to end well; shows its results but a password's.
action() {
	echo "+ juju run --model $MODEL --format=json $1 $2"
	[[ -z $DRY ]] || return 0
	local out
	out=$(retry 3 juju run --model "$MODEL" --format=json "$1" "$2") || die "the action $2 of $1 fails: $out"
	[[ $(jq -r '.[].status' <<<"$out") == completed ]] || die "the action $2 of $1 did not complete: $out"
	jq -r '.[].results | del(.json, .password) | to_entries[] | .key + ": " + (.value | tostring)' <<<"$out" | sed 's/^/    /'
}
