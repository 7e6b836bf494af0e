#!/bin/bash
# Gives a folder of this LXD host to a unit's tasks; see --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=scripts/lib/devices.sh
source "$here/lib/devices.sh"
# shellcheck disable=SC2034 # devices.sh reads it
readonly MARK=user.mount-folder.

usage() {
	cat <<'TEXT'
Usage: mount-folder.sh UNIT FOLDER [options]

Gives FOLDER, models or a data set on this LXD host, to the tasks of the Juju unit UNIT
(such as rocm-worker/0), or of all units of an application (rocm-worker), at /srv/NAME.
Tasks can write to it where NAME ends in _rw or _writable, and FOLDER's own mode lets
them. A second run changes nothing. Run it on the LXD host, with the model as the
current one.

  --name NAME  the folder's name below /srv; default: FOLDER's own
  --remove     take away what this script added, and nothing else
  --dry-run    print the lxc commands and run none that changes anything
  --help       this text

Needs juju, lxc and jq. Another model than the current one: MODEL=name.
TEXT
}

target='' folder='' name='' remove=''
while (($#)); do
	split_flag "$@" && set -- "${split[@]}"
	case $1 in
	--name) value "$@"; name=$2; shift ;;
	--dry-run) dry=1 ;;
	--remove) remove=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage_error "there is no option $1; there are: --name --remove --dry-run --help" ;;
	*)
		if [[ -z $target ]]; then target=$1; elif [[ -z $folder ]]; then folder=$1; else usage_error "one folder at a time, not $folder and $1"; fi
		;;
	esac
	shift
done
is_target "$target"
[[ -n $folder ]] || usage_error "which folder of this host?"
: "${name:=$(basename "$folder")}"
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || usage_error "\"$name\" can't be a name below /srv; give one of letters, digits, . _ -: --name NAME"
need juju "sudo snap install juju" lxc "sudo snap install lxd" jq "sudo apt-get install -y jq"
device=srv-${name//[._]/-}
options=()
[[ $name == *_rw || $name == *_writable ]] || options=(readonly=true)

status=$(juju_status) || die "juju status fails; log in to the controller (juju login) and choose the model (juju switch MODEL)"
if [[ -z $remove ]]; then
	[[ -d $folder ]] || die "there is no folder $folder on this host; make it: mkdir -p $folder"
	folder=$(realpath "$folder")
fi
units=$(units_of "$target" <<<"$status")
for unit in $units; do
	open_unit "$unit" "$status"
	if [[ -n $remove ]]; then
		unmount_folder "$device" "/srv/$name"
	else
		mount_folder "$device" "$folder" "/srv/$name" "${options[@]}"
	fi
done
