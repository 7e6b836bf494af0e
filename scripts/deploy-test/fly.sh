#!/bin/bash
# Read by deploy-test.sh: Concourse's API and fly. The password goes from Juju's
# answer into a file of this run's folder, from there to curl and away; fly gets a
# token. Neither is ever an argument or printed.
# shellcheck disable=SC2016 # the variables in single quotes are jq's

# f runs fly with a home of its own, so that the user's targets stay as they are.
f() { HOME=$WORK/home FLY_HOME=$WORK/home "${FLY:-$WORK/fly}" --target deploy-test "$@"; }

run_fly() {
	echo "+ fly --target deploy-test $(show "$@")"
	[[ -z $DRY ]] || return 0
	f "$@"
}

fetch() { curl --fail --silent --show-error --max-time 120 "$@"; }

api_answers() { # URL
	local info
	info=$(fetch "$1/api/v1/info") || { echo "$1/api/v1/info does not answer"; return 1; }
	jq -e '.worker_version | length > 0' >/dev/null <<<"$info" || { echo "$1/api/v1/info names no worker_version"; return 1; }
}

# session logs in to the web as its first user.
session() {
	local url arch user
	url=$(web_url)
	wait_until "$url/api/v1/info has a worker_version" api_answers "$url"
	echo "  log in as the user of: juju run $WEB_APP/leader get-admin-password"
	[[ -z $DRY ]] || return 0
	if [[ -z ${FLY:-} && ! -x $WORK/fly ]]; then
		arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
		retry 3 fetch_fly "$url" "$arch" || die "cannot download fly from $url"
	fi
	retry 3 juju run --model "$MODEL" --format=json "$WEB_APP/leader" get-admin-password >"$WORK/answer" ||
		die "the action get-admin-password fails; see: juju status --model $MODEL"
	user=$(jq -r '.[].results.username // ""' "$WORK/answer")
	jq -j '.[].results.password // ""' "$WORK/answer" >"$WORK/password"
	rm "$WORK/answer"
	[[ -n $user && -s $WORK/password ]] || die "get-admin-password tells no user and password; see: juju status --model $MODEL"
	# fly's name and secret as a client are the same in every Concourse.
	retry 3 curl --fail --silent --show-error --max-time 60 --output "$WORK/token" --user fly:Zmx5 \
		--data-urlencode grant_type=password --data-urlencode "username=$user" --data-urlencode "password@$WORK/password" \
		--data-urlencode "scope=openid profile email federated:id groups" "$url/sky/issuer/token" ||
		die "the web refuses the login of $user"
	rm "$WORK/password"
	mkdir -p "$WORK/home"
	# JSON is YAML too.
	jq --arg api "$url" '{targets: {"deploy-test": {api: $api, team: "main", token: {type: "bearer", value: .access_token}}}}' \
		"$WORK/token" >"$WORK/home/.flyrc"
	rm "$WORK/token"
	f status >/dev/null || die "fly can't use the login at $url"
}

fetch_fly() { # URL ARCH
	fetch --output "$WORK/fly" "$1/api/v1/cli?arch=$2&platform=linux" && chmod 700 "$WORK/fly"
}

running_workers() { # prints how many have each of the tags TAG...
	f workers --json | jq '[.[] | select(.state == "running") | (.tags // []) as $tags
		| select($ARGS.positional | all(. as $t | $tags | index($t) != null))] | length' --args "$@"
}

# workers_with COUNT TAG...: at least COUNT running workers have all tags.
workers_with() {
	local have
	have=$(running_workers "${@:2}") || { echo "fly workers fails"; return 1; }
	echo "$have running workers${2:+ with the tags ${*:2}}"
	((have >= $1))
}

# untagged_workers COUNT: COUNT running workers take untagged steps.
untagged_workers() {
	local have
	have=$(f workers --json | jq '[.[] | select(.state == "running" and (.tags // []) == [])] | length') || { echo "fly workers fails"; return 1; }
	echo "$have running workers without tags"
	((have >= $1))
}

# task FILE "TAG TAG" VAR=VALUE...: runs it, on a worker with the tags, shows its
# output, and fails where it fails.
task() {
	local file=$1 tags=$2 argv=(execute --config "$1") t
	shift 2
	for t in $tags; do argv+=(--tag "$t"); done
	for t in "$@"; do argv+=(--var "$t"); done
	run_fly "${argv[@]}" || die "the task ${file##*/} failed; its output is above"
}
