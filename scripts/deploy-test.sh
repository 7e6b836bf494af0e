#!/bin/bash
# Deploys Concourse on a real Juju and LXD and checks it, step by step; see
# --help. The steps are in scripts/deploy-test/.
set -euo pipefail
umask 077
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TASKS=$(cd "$HERE/../pipelines/tasks" && pwd)
# shellcheck source=scripts/lib/common.sh
source "$HERE/lib/common.sh"
# shellcheck source=scripts/deploy-test/run.sh
source "$HERE/deploy-test/run.sh"
# shellcheck source=scripts/deploy-test/juju.sh
source "$HERE/deploy-test/juju.sh"
# shellcheck source=scripts/deploy-test/fly.sh
source "$HERE/deploy-test/fly.sh"
# shellcheck source=scripts/deploy-test/steps-life.sh
source "$HERE/deploy-test/steps-life.sh"
# shellcheck source=scripts/deploy-test/steps-worker.sh
source "$HERE/deploy-test/steps-worker.sh"
# shellcheck source=scripts/deploy-test/storage.sh
source "$HERE/deploy-test/storage.sh"
# shellcheck source=scripts/deploy-test/steps-web.sh
source "$HERE/deploy-test/steps-web.sh"

readonly STEPS=(deploy verify verify-marker mounts tagged rocm pytorch cuda upgrade scale-out config vault destroy)

: "${CONCOURSE_VERSION:=8.2.5}" "${UPGRADE_VERSION:=8.3.0}" "${CONCOURSE_SHA256:=}" "${UPGRADE_SHA256:=}"
: "${WAIT_SECONDS:=1800}" "${POLL_SECONDS:=5}" "${VAULT_CHANNEL:=2.0/stable}"
: "${ROCM_IMAGE:=rocm/dev-ubuntu-24.04}" "${ROCM_IMAGE_TAG:=latest}"
: "${PYTORCH_IMAGE:=rocm/pytorch}" "${PYTORCH_IMAGE_TAG:=latest}"
: "${CUDA_IMAGE:=nvidia/cuda}" "${CUDA_IMAGE_TAG:=12.6.3-base-ubuntu24.04}"

usage() {
	cat <<TEXT
Usage: deploy-test.sh [options]

Deploys the charm with PostgreSQL into a new model of the current Juju
controller, runs the steps, prints what came of each, and destroys the model.
Your current model stays the current one. Exits with 1 when a step fails; the
steps after it are not run.

  --mode=MODE       auto (default): one application, the leader is the web;
                    web+worker: an application each
  --shared-storage=NAME
                    none (default), or lxc: a folder of this host that all units
                    have in common, by share-storage.sh
  --steps=A,B       these steps only, in this order; without deploy, on the
                    model that an earlier run kept
  --charm=FILE      the charm; default: concourse-ci-machine_<arch>.charm in the
                    project's folder, where \`make charm\` writes it
  --channel=NAME    the charm from Charmhub's channel, such as latest/edge
  --pci=ADDRESS     the GPU for rocm and cuda; needed where the host has several
  --gpu-id=ID       the same by its id in: lxc query /1.0/resources
  --skip-cleanup    keep the model
  --dry-run         print what would be run, and run nothing
  --help            this text

Steps:
  deploy        a new model, all units active, the API answers, a login by fly
  verify        services, check-status, a running worker, a task
  verify-marker with --shared-storage=lxc: all units have one volume, with its
                marker, and run the Concourse that is in it
  mounts        folders of /srv by lxc: one is read-only in tasks, one writable
  tagged        the option tag, and a task with it
  rocm          an AMD GPU passed through, verify-gpu, tasks that compute on it
  pytorch       torch computes on it, faster than the processor, with the same
                result; the image is large: only with --steps
  cuda          the same as rocm with an NVIDIA GPU
  upgrade       another Concourse on all units
  scale-out     one worker more
  config        options in the web's environment; what is not the charm's stays
  vault         secrets from Vault by relation; nothing stays when it is removed
  destroy       the model is gone
rocm, pytorch, cuda and mounts are skipped where this host has no such GPU, or
no lxc. A flag's value may stand behind = or a space.

Environment, with defaults:
  CONCOURSE_VERSION=$CONCOURSE_VERSION UPGRADE_VERSION=$UPGRADE_VERSION
  CONCOURSE_SHA256= UPGRADE_SHA256=   of these releases' tarballs, where the
                    charm can't learn them by itself
  WAIT_SECONDS=$WAIT_SECONDS POLL_SECONDS=$POLL_SECONDS   for each wait, and between looks
  FLY=              a fly of that version in place of the web's
  ROCM_IMAGE=$ROCM_IMAGE ROCM_IMAGE_TAG=$ROCM_IMAGE_TAG
  PYTORCH_IMAGE=$PYTORCH_IMAGE PYTORCH_IMAGE_TAG=$PYTORCH_IMAGE_TAG
  CUDA_IMAGE=$CUDA_IMAGE CUDA_IMAGE_TAG=$CUDA_IMAGE_TAG
  VAULT_CHANNEL=$VAULT_CHANNEL
Needs juju 3.3 or newer, jq and curl; lxc for mounts, GPUs and shared storage.
TEXT
}

MODE=auto STORAGE=none KEEP='' CHANNEL='' CHARM='' GPU_ID='' PCI='' DRY='' steps=()
while (($#)); do
	split_flag "$@" && set -- "${split[@]}"
	case $1 in
	--mode | --shared-storage | --steps | --charm | --channel | --pci | --gpu-id)
		value "$@"
		case $1=$2 in
		--mode=auto | --mode=web+worker) MODE=$2 ;;
		--mode=*) usage_error "--mode: \"$2\" is not one of auto, web+worker" ;;
		--shared-storage=none | --shared-storage=lxc) STORAGE=$2 ;;
		--shared-storage=*) usage_error "--shared-storage: \"$2\" is not one of none, lxc" ;;
		--steps=*) IFS=, read -ra steps <<<"$2" ;;
		--charm=*) CHARM=$2 ;;
		--channel=*) CHANNEL=$2 ;;
		--pci=*) PCI=$(normal_pci "$2") || usage_error "--pci: \"$2\" is no PCI address, such as 0000:03:00.0" ;;
		--gpu-id=*) GPU_ID=$2; [[ $GPU_ID =~ ^[0-9]+$ ]] || usage_error "--gpu-id: \"$GPU_ID\" is no number" ;;
		esac
		shift
		;;
	--skip-cleanup) KEEP=1 ;;
	--dry-run) DRY=1 ;;
	-h | --help) usage; exit 0 ;;
	*) usage_error "there is no option $1; there are: --mode --shared-storage --steps --charm --channel --pci --gpu-id --skip-cleanup --dry-run --help" ;;
	esac
	shift
done
if ((${#steps[@]} == 0)); then
	for step in "${STEPS[@]}"; do
		[[ $step == pytorch || $step == verify-marker && $STORAGE == none ]] || steps+=("$step")
	done
fi
for step in "${steps[@]}"; do
	[[ " ${STEPS[*]} " == *" $step "* ]] || usage_error "there is no step \"$step\"; there are: ${STEPS[*]}"
done
[[ -z $CHARM || -z $CHANNEL ]] || usage_error "--charm or --channel, not both"
[[ -z $PCI || -z $GPU_ID ]] || usage_error "--pci or --gpu-id, not both"

MODEL=concourse-test-${MODE/+/-}
# shellcheck disable=SC2034 # steps-web.sh reads it
ENV_FILE=/var/lib/concourse/config.env
# shellcheck disable=SC2034
[[ $STORAGE == none ]] || MODEL+=-$STORAGE ENV_FILE=/var/lib/concourse-web/config.env
DESTROY="juju destroy-model --no-prompt --destroy-storage --force $MODEL"
WEB_APP=concourse-ci WORKER_APP=concourse-ci
[[ $MODE == auto ]] || { WEB_APP=web WORKER_APP=worker; }
if [[ -z $CHARM ]]; then
	CHARM=$(dirname "$HERE")/concourse-ci-machine_$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/').charm
	[[ -z $DRY ]] || CHARM=./${CHARM##*/}
fi
# Shown as from the project's folder.
[[ -z $DRY ]] || HERE=scripts TASKS=pipelines/tasks
if [[ -z $DRY ]]; then
	programs=(juju "sudo snap install juju" jq "sudo apt-get install -y jq" curl "sudo apt-get install -y curl")
	[[ $STORAGE == none ]] || programs+=(lxc "sudo snap install lxd")
	need "${programs[@]}"
	[[ " ${steps[*]} " != *" deploy "* || -n $CHANNEL || -f $CHARM ]] ||
		die "there is no charm at $CHARM; run: make charm, or give --charm=FILE or --channel=NAME"
fi

WORK=/nonexistent SHARED=/FOLDER
[[ -n $DRY ]] || WORK=$(mktemp -d)
# What the worker sees of the host, by lxc.
[[ -n $DRY ]] || SHARED=$WORK/shared
results=() failed='' # "step result seconds"

summary() {
	local line
	echo
	printf '%-13s  %-8s  %7s\n' step result seconds
	for line in "${results[@]}"; do
		# shellcheck disable=SC2086 # three words
		printf '%-13s  %-8s  %7s\n' $line
	done
}

finish() {
	local code=$?
	trap - EXIT
	set +e
	if [[ -n $failed ]]; then
		echo
		juju status --model "$MODEL"
	fi
	if [[ -e $WORK/mounted ]]; then unmount "$(cat "$WORK/mounted")"; fi
	if [[ -e $WORK/model-is-ours ]]; then
		if [[ -n $KEEP ]]; then
			echo "The model $MODEL is kept; remove it: $DESTROY"
		elif ! destroy_model; then
			echo "error: the model $MODEL could not be removed; run: $DESTROY" >&2
			((code)) || code=1
		fi
	fi
	if [[ -z $KEEP ]]; then remove_storage; fi
	[[ -n $DRY ]] || rm -rf "$WORK"
	((${#results[@]} == 0)) || summary
	[[ -z $failed ]] || echo "The step $failed failed."
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for step in "${steps[@]}"; do
	if [[ -n $failed ]]; then
		results+=("$step not-run -")
		continue
	fi
	echo "== $step"
	begin=$SECONDS
	# A shell of its own, and not as a condition: there `set -e` would be off in
	# everything that the step calls.
	set +e
	(
		trap - EXIT
		set -e
		"step_$step"
	)
	code=$?
	set -e
	case $code in
	0) result=passed ;;
	"$SKIPPED") result=skipped ;;
	130 | 143) exit "$code" ;;
	*) result=FAILED failed=$step ;;
	esac
	[[ -z $DRY || $result != passed ]] || result=shown
	results+=("$step $result $([[ -n $DRY ]] && echo - || echo $((SECONDS - begin)))")
done
[[ -z $failed ]]
