#!/bin/bash
# Read by pass-gpu.sh, share-storage.sh and mount-folder.sh, with `source`, after
# common.sh: devices of a unit's container. What is added is noted in the container's own
# configuration, as $MARK<device>, so that --remove takes that away and nothing else. The
# script that reads this sets MARK and dry.
# shellcheck disable=SC2016 # the variables in single quotes are jq's

changes=0
change() { # a command that changes the container
	changes=$((changes + 1))
	show "$@"
	[[ -n ${dry:-} ]] || "$@" >/dev/null
}

# open_unit UNIT STATUS: sets container and instance, what LXD knows of it, by what
# juju status says.
open_unit() {
	container=$(container_of "$1" <<<"$2")
	instance=$(instance_of "$container" "$1")
}

ask() { jq -r "$@" <<<"$instance"; }

# drop DEVICE TYPE KEY VALUE: a device of ours that is still what we made of it.
drop() {
	if [[ $(ask --arg d "$1" --arg t "$2" --arg k "$3" --arg v "$4" '(.devices // {})[$d] // {} | .type == $t and .[$k] == $v') == true ]]; then
		change lxc config device remove "$container" "$1"
	elif [[ $(ask --arg d "$1" '(.devices // {}) | has($d)') == true ]]; then
		note "$1 of $container is not as this script made it; it stays"
	fi
	change lxc config unset "$container" "$MARK$1"
}

# add NAME NOTE ARGS...: the note comes first, so that nothing of ours is unknown.
add() {
	change lxc config set "$container" "$MARK$1=$2"
	if ! change lxc config device add "$container" "$1" "${@:3}"; then
		lxc config unset "$container" "$MARK$1"
		die "LXD does not take the device $1; its reason is above"
	fi
}

# mount_folder DEVICE FOLDER PATH OPTION...: the host's FOLDER at PATH of the container.
mount_folder() {
	local device=$1 folder=$2 path=$3 there
	there=$(ask --arg p "$path" '[(.expanded_devices // {})[] | select(.type == "disk" and .path == $p) | .source // "a volume"] | first // ""')
	case $there in
	"$folder") note "$container has $folder at $path already; nothing to change" ;;
	"")
		[[ $(ask --arg d "$device" '(.expanded_devices // {}) | has($d)') == false ]] ||
			die "$container has another device of the name $device; look at it: lxc config device show $container"
		add "$device" "$folder" disk "source=$folder" "path=$path" "${@:4}"
		;;
	*) die "$container has $there at $path, not $folder; look at it: lxc config device show $container" ;;
	esac
}

# unmount_folder DEVICE PATH takes away what mount_folder brought.
unmount_folder() {
	if [[ $(ask --arg m "$MARK$1" '(.config // {}) | has($m)') == true ]]; then
		drop "$1" disk path "$2"
	else
		note "$container has nothing at $2 that this script added; nothing to change"
	fi
}
