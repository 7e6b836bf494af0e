#!/bin/bash
# Read by deploy-test.sh: the storage that units share with --shared-storage=lxc.

# make_storage prints the folder of this host that becomes the storage. It outlives the
# run where the model is kept.
make_storage() {
	if [[ -n $DRY ]]; then echo /STORAGE; return; fi
	mktemp -d "${TMPDIR:-/var/tmp}/concourse-test.XXXXXX" | tee "$WORK/storage"
	chmod 755 "$(cat "$WORK/storage")" # the web runs as a user of its own
}

# storage prints it, by the first worker's device, as another run may have made it.
storage() {
	if [[ -n $DRY ]]; then echo /STORAGE; return; fi
	lxc config device get "$(container "$(worker_unit)")" shared-storage source
}

# share gives it to all units of the test, those too that came since.
share() { # FOLDER
	local app
	for app in $(apps); do
		run env "MODEL=$MODEL" "$HERE/share-storage.sh" "$app" "$1"
	done
}

# remove_storage is after the model, whose containers have it. What they wrote is root's.
remove_storage() {
	local folder
	[[ -e $WORK/storage && ! -e $WORK/model-is-ours ]] || return 0
	folder=$(cat "$WORK/storage")
	rm -rf "$folder" 2>/dev/null || note "$folder has files of root's; remove it: sudo rm -r $folder"
}

# all_wait: each unit of the test waits for the storage, and has fetched nothing before.
all_wait() {
	local other
	other=$(status_of | jq -r --arg apps "$(apps)" '($apps | split(" "))[] as $a | .applications[$a].units // {} | to_entries[]
		| select(.value["workload-status"].message // "" | contains("Waiting for shared storage") | not)
		| .key + ": " + (.value["workload-status"].message // "")') || { echo "juju status fails"; return 1; }
	echo "$other"
	[[ -z $other ]]
}

one_waits() {
	local now
	now=$(status_of | jq -r '[.applications[].units // {} | .[]["workload-status"].message // "" | select(contains("Waiting for shared storage"))] | length') || { echo "juju status fails"; return 1; }
	echo "$now units wait"
	((now == 1))
}

# same WHAT PATH: all units see one and the same file.
same() {
	local unit inode first=''
	for unit in $(all_units); do
		inode=$(on_unit "$unit" "stat -L -c %i $2") || { echo "$unit has no $2" >&2; return 1; }
		: "${first:=$inode}"
		[[ $inode == "$first" ]] || { echo "$1 of $unit is another than the first unit's" >&2; return 1; }
	done
}

all_units() {
	local app
	for app in $(apps); do app_units "$app" | cut -f 1; done
}

step_verify-marker() {
	local unit note_file=/var/lib/concourse/.deploy-test
	if [[ $STORAGE == none ]]; then skip "without --shared-storage=lxc there is no volume"; fi
	check "all units have the volume's marker" same "the marker" /var/lib/concourse/.lxc_shared_storage
	check "all units run the one Concourse in it" same "the program" /opt/concourse-ci-machine/release/bin/concourse
	unit=$(web_unit)
	check "$unit can write to it" on_unit "$unit" "echo $MODEL >$note_file"
	unit=$(worker_unit)
	check "$unit reads what it wrote" on_unit "$unit" "grep -qx $MODEL $note_file && rm $note_file"
}
