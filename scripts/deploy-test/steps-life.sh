#!/bin/bash
# Read by deploy-test.sh: the steps of a deployment's life.

step_deploy() {
	if [[ -z $DRY ]] && ! model_gone; then
		die "the model $MODEL is there already; remove it: juju destroy-model --no-prompt --destroy-storage $MODEL, or use it: --steps without deploy"
	fi
	run juju add-model --no-switch "$MODEL" # the user's current one stays that
	[[ -n $DRY ]] || touch "$WORK/model-is-ours"
	run juju model-config --model "$MODEL" update-status-hook-interval=10s
	local folder charm=("$CHARM") config=(--config "version=$CONCOURSE_VERSION")
	[[ $STORAGE == none ]] || config+=(--config "shared-storage=$STORAGE")
	[[ -z $CONCOURSE_SHA256 ]] || config+=(--config "release-sha256=$CONCOURSE_SHA256")
	[[ -z $CHANNEL ]] || charm=(concourse-ci-machine --channel "$CHANNEL")
	if [[ $WEB_APP == "$WORKER_APP" ]]; then
		run juju deploy --model "$MODEL" "${charm[@]}" "$WEB_APP" --config mode=auto "${config[@]}" --num-units 2
	else
		run juju deploy --model "$MODEL" "${charm[@]}" "$WEB_APP" --config mode=web "${config[@]}"
		run juju deploy --model "$MODEL" "${charm[@]}" "$WORKER_APP" --config mode=worker "${config[@]}"
		run_retried juju integrate --model "$MODEL" "$WORKER_APP:flight" "$WEB_APP:tsa"
	fi
	run juju deploy --model "$MODEL" postgresql --channel 16/stable
	run_retried juju integrate --model "$MODEL" "$WEB_APP:postgresql" postgresql:database
	if [[ $STORAGE != none ]]; then
		wait_until "all units wait for their storage" all_wait
		folder=$(make_storage)
		share "$folder"
	fi
	wait_until "all units are active with v$CONCOURSE_VERSION and no machine is down" ready "$CONCOURSE_VERSION"
	session
}

step_verify() {
	local unit
	session
	unit=$(web_unit)
	check "concourse-server is active on $unit" on_unit "$unit" "systemctl is-active concourse-server"
	action "$unit" check-status
	for unit in $(worker_units); do
		check "concourse-worker is active on $unit" on_unit "$unit" "systemctl is-active concourse-worker"
		action "$unit" check-status
	done
	wait_until "a worker runs" workers_with 1
	task "$HERE/deploy-test/hello.yml" ""
}

step_upgrade() {
	local app
	for app in $(apps); do
		# The old release's sum does not fit the new one: empty is none.
		run juju config --model "$MODEL" "$app" "version=$UPGRADE_VERSION" "release-sha256=$UPGRADE_SHA256"
	done
	wait_until "all units are active with v$UPGRADE_VERSION" ready "$UPGRADE_VERSION"
	[[ -n $DRY ]] || rm -f "$WORK/fly" # the web has the one of its version
	session
	check "the web returned that it is $UPGRADE_VERSION" web_is "$UPGRADE_VERSION"
	wait_until "a worker runs" workers_with 1
	task "$HERE/deploy-test/hello.yml" ""
}

web_is() {
	local url
	url=$(web_url)
	[[ $(fetch "$url/api/v1/info" | jq -r .version) == "$1" ]]
}

# Not skipped when the leader changes: the new one is the web, and the number of
# workers is the same.
step_scale-out() {
	local before=1 more folder
	session
	if [[ -z $DRY ]]; then before=$(worker_units | wc -l); fi
	more=$((before + 1))
	run juju add-unit --model "$MODEL" "$WORKER_APP"
	wait_until "there are $more workers" worker_count "$more"
	if [[ $STORAGE != none ]]; then
		wait_until "the new unit waits for its storage" one_waits
		folder=$(storage)
		share "$folder"
	fi
	wait_until "all units are active" ready ""
	session
	wait_until "$more workers run" workers_with "$more"
	task "$HERE/deploy-test/hello.yml" ""
}

worker_count() {
	local have
	have=$(worker_units | wc -l) || return
	echo "$have workers"
	((have == $1))
}

step_destroy() {
	[[ -z $KEEP ]] || skip "--skip-cleanup keeps the model; remove it: $DESTROY"
	destroy_model
	check "the model is gone" model_gone
}

# model_gone: a controller that does not answer says nothing of it.
model_gone() {
	local list
	list=$(juju models --format=json) || die "juju models fails; log in to a controller: juju login"
	jq -e --arg name "$MODEL" '[.models[]? | .["short-name"]] | index($name) == null' >/dev/null <<<"$list"
}

destroy_model() {
	run juju destroy-model --no-prompt --destroy-storage --force --timeout 15m "$MODEL" || return 1 # a bare return in a trap tells of what came before it
	[[ -n $DRY ]] || rm -f "$WORK/model-is-ours"
}
