#!/bin/bash
# Gives the units of an application the folder that shared-storage=lxc wants; see --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=scripts/lib/devices.sh
source "$here/lib/devices.sh"
# shellcheck disable=SC2034 # devices.sh reads it
readonly MARK=user.share-storage. STORAGE=/var/lib/concourse DEVICE=shared-storage

usage() {
	cat <<'TEXT'
Usage: share-storage.sh UNIT FOLDER [options]

Gives FOLDER of this LXD host to the Juju unit UNIT (such as worker/0), or to all units
of an application (worker), as the storage that units with shared-storage=lxc have in
common, and marks it as that. Run it for each application of the model with the same
FOLDER, and again when there are more units; a second run changes nothing. Run it on the
LXD host, with the model as the current one.

  --remove   take away what this script added, and nothing else; FOLDER stays
  --dry-run  print the lxc commands and run none that changes anything
  --help     this text

Needs juju, lxc and jq. Another model than the current one: MODEL=name.
TEXT
}

target='' folder='' remove=''
while (($#)); do
	split_flag "$@" && set -- "${split[@]}"
	case $1 in
	--dry-run) dry=1 ;;
	--remove) remove=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage_error "there is no option $1; there are: --remove --dry-run --help" ;;
	*)
		if [[ -z $target ]]; then target=$1; elif [[ -z $folder ]]; then folder=$1; else usage_error "one folder at a time, not $folder and $1"; fi
		;;
	esac
	shift
done
is_target "$target"
[[ -n $folder || -n $remove ]] || usage_error "which folder of this host?"
need juju "sudo snap install juju" lxc "sudo snap install lxd" jq "sudo apt-get install -y jq"

# mark_storage CHANGES-BEFORE has the charm know the folder from one that is not mounted. The
# container's root writes it, who is the folder's root by shift=true.
mark_storage() {
	local marker=$STORAGE/.lxc_shared_storage
	if [[ -n ${dry:-} ]]; then
		(($1 == changes)) || change lxc exec "$container" -- touch "$marker"
	elif ! lxc exec "$container" -- test -e "$marker"; then
		change lxc exec "$container" -- touch "$marker"
	fi
}

status=$(juju_status) || die "juju status fails; log in to the controller (juju login) and choose the model (juju switch MODEL)"
if [[ -z $remove ]]; then
	[[ -d $folder ]] || die "there is no folder $folder on this host; make it: sudo mkdir -p $folder"
	folder=$(realpath "$folder")
fi
units=$(units_of "$target" <<<"$status")
for unit in $units; do
	open_unit "$unit" "$status"
	if [[ -n $remove ]]; then
		unmount_folder "$DEVICE" "$STORAGE"
		continue
	fi
	before=$changes
	mount_folder "$DEVICE" "$folder" "$STORAGE" shift=true
	mark_storage "$before"
done
