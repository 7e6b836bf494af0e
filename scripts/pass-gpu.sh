#!/bin/bash
# Passes one GPU of this LXD host to a unit's container; see --help.
#
# What it adds it notes as user.pass-gpu.DEVICE=VENDOR ADDRESS, see lib/devices.sh.
# shellcheck disable=SC2016 # the variables in single quotes are jq's
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib/common.sh
source "$here/lib/common.sh"
# shellcheck source=scripts/lib/devices.sh
source "$here/lib/devices.sh"

# The group video: the number is the same on every Debian and Ubuntu. LXD's
# default, root, is a group that a task's user namespace does not have.
readonly GID=44
readonly MARK=user.pass-gpu.

usage() {
	cat <<'TEXT'
Usage: pass-gpu.sh UNIT [options]

Passes one GPU of this LXD host to the container of the Juju unit UNIT (such as
rocm-worker/0 or rocm-worker/leader), by its PCI address and for the group video;
with it /dev/kfd, where the GPU is AMD's. A second run changes nothing. Run it on
the LXD host, with the unit's model as the current one.

  --vendor amd|nvidia  whose GPU; default: amd, or that of --pci
  --pci ADDRESS        this one, such as 0000:03:00.0; needed where the host has
                       several of the vendor
  --remove             take away what this script added (with --vendor or --pci
                       only that), and nothing else
  --dry-run            print the lxc commands and run none that changes anything
  --help               this text

Needs juju, lxc and jq. Another model than the current one: MODEL=name.
TEXT
}

unit='' vendor='' pci='' dry='' remove=''
while (($#)); do
	split_flag "$@" && set -- "${split[@]}"
	case $1 in
	--vendor) value "$@"; vendor=$2; shift ;;
	--pci) value "$@"; pci=$2; shift ;;
	--dry-run) dry=1 ;;
	--remove) remove=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage_error "there is no option $1; there are: --vendor --pci --remove --dry-run --help" ;;
	*) [[ -z $unit ]] || usage_error "one unit at a time, not $unit and $1"; unit=$1 ;;
	esac
	shift
done
[[ -n $unit ]] || usage_error "which unit?"
[[ $unit =~ ^[a-z][a-z0-9-]*/([0-9]+|leader)$ ]] || usage_error "\"$unit\" is no unit, such as rocm-worker/0"
[[ -z $vendor ]] || vendor_id "$vendor" >/dev/null || usage_error "--vendor: \"$vendor\" is not one of amd, nvidia"
if [[ -n $pci ]]; then
	given=$pci
	pci=$(normal_pci "$given") || usage_error "--pci: \"$given\" is no PCI address, such as 0000:03:00.0"
fi
need juju "sudo snap install juju" lxc "sudo snap install lxd" jq "sudo apt-get install -y jq"

status=$(juju_status) || die "juju status fails; log in to the controller (juju login) and choose the model (juju switch MODEL)"
open_unit "$unit" "$status"

marked() { # lines: device, vendor, address
	ask --arg mark "$MARK" '(.config // {}) | to_entries[] | select(.key | startswith($mark))
		| [(.key | ltrimstr($mark)), (.value | split(" ")[0] // "-"), (.value | split(" ")[1] // "-")] | @tsv'
}

remove_ours() {
	local device whose address kept=0 kfd=''
	while IFS=$'\t' read -r device whose address; do
		if [[ $address == - ]]; then
			kfd=$device
		elif [[ (-z $vendor || $vendor == "$whose") && (-z $pci || $pci == "$address") ]]; then
			drop "$device" gpu pci "$address"
		elif [[ $whose == amd ]]; then
			kept=1
		fi
	done < <(marked)
	# One kfd serves all AMD GPUs: it goes with the last that we brought.
	if [[ -n $kfd && $kept == 0 && ${vendor:-amd} == amd ]] && [[ -z $pci || $changes -gt 0 ]]; then
		drop "$kfd" unix-char source /dev/kfd
	fi
	((changes)) || note "$container has nothing that this script added; nothing to change"
}

# free_name BASE: BASE0, BASE1, ... that no device of the container has.
free_name() {
	ask --arg base "$1" '((.expanded_devices // {}) + (.devices // {})) as $d
		| first(range(100) | $base + tostring | select($d[.] == null))'
}

# give_group DEVICE [MARK]: sets gid where it is another; a profile's device is
# overridden for this container only, and with MARK noted as ours.
give_group() {
	[[ $(ask --arg d "$1" '.expanded_devices[$d].gid // "0"') != "$GID" ]] || return 0
	if [[ $(ask --arg d "$1" '(.devices // {}) | has($d)') == true ]]; then
		change lxc config device set "$container" "$1" "gid=$GID"
	else
		[[ -z ${2:-} ]] || change lxc config set "$container" "$MARK$1=$2"
		change lxc config device override "$container" "$1" "gid=$GID"
	fi
}

choose() { # sets pci, id and vendor
	local cards count driver product
	cards=$(gpus "$([[ -z $vendor && -n $pci ]] || vendor_id "${vendor:-amd}")")
	if [[ -n $pci ]]; then
		local all=$cards
		cards=$(awk -F '\t' -v p="$pci" '$1 == p' <<<"$all")
		[[ -n $cards ]] || die "this host has no ${vendor:-AMD or NVIDIA} GPU at $pci; it has:"$'\n'"${all:-none}"
	fi
	[[ -n $vendor || -z $pci ]] || vendor=$(cut -f 4 <<<"$cards")
	: "${vendor:=amd}"
	[[ -n $cards ]] || die "this host has no $vendor GPU; LXD lists its GPUs with: lxc query /1.0/resources"
	count=$(wc -l <<<"$cards")
	((count == 1)) || die "this host has $count $vendor GPUs; choose one with --pci:"$'\n'"$cards"
	IFS=$'\t' read -r pci id driver vendor product <<<"$cards"
	case $driver in
	-) die "the GPU at $pci ($product) has no driver; on this host run: sudo modprobe $([[ $vendor == amd ]] && echo amdgpu || echo nvidia)" ;;
	vfio-pci) die "the GPU at $pci ($product) is bound to vfio-pci: set aside for a virtual machine" ;;
	esac
}

pass() {
	local gpu kfd
	# One that passes this GPU already, by whatever means.
	gpu=$(ask --arg pci "$pci" --arg id "$id" --arg v "$(vendor_id "$vendor")" '
		def full: ascii_downcase | if test("^[0-9a-f]{2}:") then "0000:" + . else . end;
		[(.expanded_devices // {}) | to_entries[] | select(.value.type == "gpu" and (.value.gputype // "physical") == "physical")
		| .value as $g
		| select(if $g.pci then ($g.pci | full) == $pci elif $g.id then $g.id == $id
		         elif $g.productid then false elif $g.vendorid then ($g.vendorid | ascii_downcase) == $v else true end)
		| .key] | first // ""')
	if [[ -z $gpu ]]; then
		add "$(free_name gpu)" "$vendor $pci" gpu "pci=$pci" "gid=$GID"
	else
		[[ $(ask --arg d "$gpu" '.expanded_devices[$d] | .pci // ""') != "" ]] ||
			note "$container has the GPU at $pci by the device $gpu, which does not name its address; what it passes may change with the host's cards"
		give_group "$gpu"
	fi
	if [[ $vendor == nvidia ]]; then
		[[ $(ask '(.expanded_config // {})["nvidia.runtime"] // ""') == true ]] ||
			note "the driver's libraries come with: lxc config set $container nvidia.runtime=true, and then: lxc restart $container"
		return 0
	fi
	kfd=$(ask '[(.expanded_devices // {}) | to_entries[]
		| select((.value.type == "unix-char" or .value.type == "unix-hotplug") and (.value.path // .value.source) == "/dev/kfd") | .key] | first // ""')
	if [[ -z $kfd ]]; then
		local name=kfd
		[[ $(ask '(.expanded_devices // {}) | has("kfd")') == false ]] || name=$(free_name kfd)
		# required=false: the container also starts where the driver comes later.
		add "$name" "$vendor" unix-char source=/dev/kfd path=/dev/kfd "gid=$GID" required=false
	else
		give_group "$kfd" "$vendor"
	fi
}

# look waits until the running container has the nodes. LXD makes them at once;
# kfd, which may be missing, when it notices it on the host.
look() {
	[[ -z $dry && $vendor == amd && $(ask .status) == Running ]] || return 0
	local try
	for ((try = 0; try < 10; try++)); do
		if lxc exec "$container" -- test -c /dev/kfd; then return 0; fi
		sleep "${POLL_SECONDS:-0.5}"
	done
	die "$container has no /dev/kfd: does this host have it? Run: ls -l /dev/kfd; where it is missing: sudo modprobe amdgpu"
}

if [[ -n $remove ]]; then
	remove_ours
	exit 0
fi
choose
pass
((changes)) || note "$container has the GPU at $pci already; nothing to change"
look
