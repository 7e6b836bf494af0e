#!/bin/bash
# Read by the scripts beside this folder, with `source`: messages, options, and what
# Juju and LXD know of a unit's container and of the host's GPUs.
# shellcheck disable=SC2016 # the variables in single quotes are jq's

die() {
	echo "error: $*" >&2
	exit 1
}

note() { echo "$*" >&2; }

# show prints a command as one would type it.
show() {
	local line
	printf -v line '%q ' "$@"
	echo "${line% }"
}

# usage_error is for a command line that can't be meant.
usage_error() {
	echo "error: $*" >&2
	echo "Run ${0##*/} --help for the options." >&2
	exit 2
}

# need NAME WHAT-TO-RUN NAME WHAT-TO-RUN...: programs that have to be there; those that
# are not are told all at once.
need() {
	local missing=''
	while (($#)); do
		command -v "$1" >/dev/null || missing+=$'\n'"$1 is not installed; run: $2"
		shift 2
	done
	[[ -z $missing ]] || die "programs are missing:$missing"
}

# split_flag ARGS...: where the first is --flag=value, sets split to the same with
# --flag value, so that both forms are read in one way.
split_flag() {
	[[ $1 == --*=* ]] || return 1
	# shellcheck disable=SC2034 # whoever called reads it
	split=("${1%%=*}" "${1#*=}" "${@:2}")
}

# value FLAG VALUE-GIVEN...: the flag has one.
value() {
	[[ -n ${2:-} && ${2:-} != -* ]] || usage_error "$1 needs a value"
}

# is_target WORD: a unit or an application.
is_target() {
	[[ -n $1 ]] || usage_error "which unit, or which application?"
	[[ $1 =~ ^[a-z][a-z0-9-]*(/([0-9]+|leader))?$ ]] || usage_error "\"$1\" is no unit or application, such as rocm-worker/0 or rocm-worker"
}

# units_of UNIT-OR-APPLICATION: the units, a line each, on stdin `juju status
# --format=json`.
units_of() {
	local found
	if [[ $1 == */* ]]; then
		cat >/dev/null
		echo "$1"
		return
	fi
	found=$(jq -r --arg app "$1" '(.applications // {})[$app].units // {} | keys[]') || die "cannot read what juju status says; it is no JSON of Juju 3"
	[[ -n $found ]] || die "there is no application $1 with units in this model. Another model: juju switch MODEL"
	echo "$found"
}

vendor_id() {
	case $1 in
	amd) echo 1002 ;;
	nvidia) echo 10de ;;
	*) return 1 ;;
	esac
}

# container_of UNIT: the name of its LXD container, on stdin `juju status
# --format=json`. A subordinate's container is its principal's.
container_of() {
	local unit=$1 status found problem machine rest
	status=$(cat)
	found=$(jq -r --arg unit "$unit" '
		(.applications // {}) as $apps
		| [$apps[].units // {} | to_entries[]
			| {key, value}, ((.value.machine) as $m | .value.subordinates // {} | to_entries[] | .value += {machine: $m})] as $units
		| ($unit | split("/")) as $want
		| [$units[] | select(.key == $unit or ($want[1] == "leader" and .value.leader == true and (.key | split("/")[0]) == $want[0]))]
		| if length == 0 then "problem\tno-unit\t" + ([$units[].key] | join(", "))
		  else .[0].value.machine as $m
		  | ($m // "" | split("/")[0]) as $host
		  | "machine\t" + ($m // "") + "\t"
		  end' <<<"$status") || die "cannot read what juju status says; it is no JSON of Juju 3"
	IFS=$'\t' read -r problem machine rest <<<"$found"
	if [[ $problem == problem ]]; then
		die "there is no unit $unit in this model; there are: ${rest:-none}. Another model: juju switch MODEL"
	fi
	[[ -n $machine ]] || die "$unit has no machine yet; wait until juju status shows one"
	found=$(jq -r --arg m "$machine" '
		[.machines // {} | .. | objects | .containers? // empty | objects] as $nested
		| ((.machines // {})[$m] // ([$nested[][$m] // empty] | first) // {})["instance-id"] // ""' <<<"$status")
	case $found in
	"" | pending) die "the machine $machine of $unit is not started yet; wait until juju status shows it as started" ;;
	manual:*) die "the machine $machine of $unit is no LXD container but a machine added by hand ($found); it has the host's GPUs without being given them" ;;
	esac
	echo "$found"
}

# juju_status: the model's, as JSON. MODEL may name one.
juju_status() {
	juju status ${MODEL:+--model "$MODEL"} --format=json
}

# instance_of NAME UNIT: what LXD knows of the container, as JSON.
instance_of() {
	local list found type
	list=$(lxc list "^$1\$" --format=json) || die "cannot ask LXD; is this the LXD host, and is $(id -un) in the group lxd?"
	found=$(jq -c --arg name "$1" 'map(select(.name == $name)) | first // empty' <<<"$list")
	[[ -n $found ]] || die "$2 is on $1, which is no LXD container of this host; run this on the LXD host that has it in: lxc list --all-projects (its project: lxc project switch NAME)"
	type=$(jq -r '.type // "container"' <<<"$found")
	[[ $type == container ]] || die "$1 of $2 is a $type, not a container; stop it and give it the whole GPU: lxc config device add $1 gpu0 gpu pci=ADDRESS"
	echo "$found"
}

# gpus VENDOR-ID: the host's cards of that vendor, a line each: PCI address, DRM
# id or -, driver or -, product. Empty VENDOR-ID: of both vendors.
gpus() {
	local resources
	resources=$(lxc query /1.0/resources) || die "cannot ask LXD for its GPUs; is this the LXD host, and is $(id -un) in the group lxd?"
	jq -r --arg v "$1" '[(.gpu // {}).cards // [] | .[]
		| select(if $v == "" then .vendor_id == "1002" or .vendor_id == "10de" else .vendor_id == $v end)]
		| sort_by(.pci_address)[]
		| [.pci_address, (.drm.id // "-" | tostring), (.driver // "" | if . == "" then "-" else . end),
		   ({"1002": "amd", "10de": "nvidia"}[.vendor_id]), (.product // "" | if . == "" then "unknown product" else . end)] | @tsv' <<<"$resources"
}

# normal_pci ADDRESS: with the domain and in lower case, as LXD writes it.
normal_pci() {
	local a=${1,,}
	[[ $a =~ ^[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$ ]] && a=0000:$a
	[[ $a =~ ^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$ ]] || return 1
	echo "$a"
}
