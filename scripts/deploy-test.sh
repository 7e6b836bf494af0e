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
# shellcheck source=scripts/deploy-test/steps-web.sh
source "$HERE/deploy-test/steps-web.sh"

readonly STEPS=(deploy verify mounts tagged rocm cuda upgrade scale-out config vault destroy)

: "${CONCOURSE_VERSION:=8.2.5}" "${UPGRADE_VERSION:=8.3.0}" "${CONCOURSE_SHA256:=}" "${UPGRADE_SHA256:=}"
: "${WAIT_SECONDS:=1800}" "${POLL_SECONDS:=5}" "${VAULT_CHANNEL:=2.0/stable}"
: "${ROCM_IMAGE:=rocm/dev-ubuntu-24.04}" "${ROCM_IMAGE_TAG:=latest}"
: "${CUDA_IMAGE:=nvidia/cuda}" "${CUDA_IMAGE_TAG:=12.6.3-base-ubuntu24.04}"

usage() {
	cat <<TEXT
Usage: deploy-test.sh [options]

Deploys the charm with PostgreSQL into a new model of the current Juju controller,
runs the steps, prints what came of each, and destroys the model. Your current
model stays the current one. Exits with 1 when a step fails; the steps after it
are not run.

  --mode=MODE       auto (default): one application, the leader is the web;
                    web+worker: an application each
  --steps=A,B       these steps only, in this order; without deploy, on the model
                    that an earlier run kept
  --charm=FILE      the charm; default: concourse-ci-machine_<arch>.charm in the
                    project's folder, where \`make charm\` writes it
  --channel=NAME    the charm from Charmhub's channel instead, such as latest/edge
  --pci=ADDRESS     the GPU for rocm and cuda; needed where the host has several
  --gpu-id=ID       the same by its id in: lxc query /1.0/resources
  --skip-cleanup    keep the model
  --dry-run         print what would be run, and run nothing
  --help            this text

Steps:
  deploy      a new model, all units active, the API answers, a login by fly
  verify      services, check-status, a running worker, a task
  mounts      folders of /srv by lxc: one is read-only in tasks, one writable
  tagged      the option tag, and a task with it
  rocm        an AMD GPU passed through, verify-gpu, tasks that compute on it
  cuda        the same with an NVIDIA GPU
  upgrade     another Concourse on all units
  scale-out   one worker more
  config      options in the web's environment; what is not the charm's stays
  vault       secrets from Vault by relation; nothing stays when it is removed
  destroy     the model is gone
rocm, cuda and mounts are skipped where this host has no such GPU, or no lxc.

Environment, with defaults:
  CONCOURSE_VERSION=$CONCOURSE_VERSION UPGRADE_VERSION=$UPGRADE_VERSION
  CONCOURSE_SHA256= UPGRADE_SHA256=   of these releases' tarballs, where the charm
                    can't learn them by itself
  WAIT_SECONDS=$WAIT_SECONDS POLL_SECONDS=$POLL_SECONDS   for each wait, and between looks
  FLY=              a fly of that version in place of the web's
  ROCM_IMAGE=$ROCM_IMAGE ROCM_IMAGE_TAG=$ROCM_IMAGE_TAG
  CUDA_IMAGE=$CUDA_IMAGE CUDA_IMAGE_TAG=$CUDA_IMAGE_TAG
  VAULT_CHANNEL=$VAULT_CHANNEL
Needs juju 3.3 or newer, jq and curl; lxc for mounts and GPUs.
TEXT
}

MODE=auto KEEP='' CHANNEL='' CHARM='' GPU_ID='' PCI='' DRY='' steps=("${STEPS[@]}")
while (($#)); do
	case $1 in
	--*=) usage_error "${1%=} needs a value" ;;
	--mode=auto | --mode=web+worker) MODE=${1#*=} ;;
	--mode=*) usage_error "--mode: \"${1#*=}\" is not one of auto, web+worker" ;;
	--steps=*) IFS=, read -ra steps <<<"${1#*=}" ;;
	--charm=*) CHARM=${1#*=} ;;
	--channel=*) CHANNEL=${1#*=} ;;
	--pci=*) PCI=$(normal_pci "${1#*=}") || usage_error "--pci: \"${1#*=}\" is no PCI address, such as 0000:03:00.0" ;;
	--gpu-id=*) GPU_ID=${1#*=}; [[ $GPU_ID =~ ^[0-9]+$ ]] || usage_error "--gpu-id: \"$GPU_ID\" is no number" ;;
	--skip-cleanup) KEEP=1 ;;
	--dry-run) DRY=1 ;;
	-h | --help) usage; exit 0 ;;
	*) usage_error "there is no option $1; there are: --mode= --steps= --charm= --channel= --pci= --gpu-id= --skip-cleanup --dry-run --help" ;;
	esac
	shift
done
for step in "${steps[@]}"; do
	[[ " ${STEPS[*]} " == *" $step "* ]] || usage_error "there is no step \"$step\"; there are: ${STEPS[*]}"
done
[[ -z $CHARM || -z $CHANNEL ]] || usage_error "--charm or --channel, not both"
[[ -z $PCI || -z $GPU_ID ]] || usage_error "--pci or --gpu-id, not both"

MODEL=concourse-test-${MODE/+/-}
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
	need juju "sudo snap install juju"
	need jq "sudo apt-get install -y jq"
	need curl "sudo apt-get install -y curl"
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
	printf '%-10s  %-8s  %7s\n' step result seconds
	for line in "${results[@]}"; do
		# shellcheck disable=SC2086 # three words
		printf '%-10s  %-8s  %7s\n' $line
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
