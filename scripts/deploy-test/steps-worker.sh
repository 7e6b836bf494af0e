#!/bin/bash
# Read by deploy-test.sh: the steps that are about a worker and its tasks.

# container UNIT: its LXD container on this host.
container() {
	local name status
	if [[ -n $DRY ]]; then echo "CONTAINER"; return; fi
	status=$(status_of) || die "juju status fails"
	name=$(container_of "$1" <<<"$status")
	instance_of "$name" "$1" >/dev/null
	echo "$name"
}

step_mounts() {
	local unit name folder mode
	if [[ -z $DRY ]] && ! command -v lxc >/dev/null; then skip "there is no lxc here to give the worker folders with"; fi
	session
	unit=$(worker_unit)
	name=$(container "$unit")
	[[ -n $DRY ]] || echo "$name" >"$WORK/mounted"
	for folder in config_test config_test_writable; do
		mode=755
		[[ $folder != *_writable ]] || mode=1777 # tasks have users of their own
		run mkdir -p "$SHARED/$folder"
		run chmod "$mode" "$SHARED/$folder"
		run lxc config device add "$name" "${folder//_/-}" disk "source=$SHARED/$folder" "path=/srv/$folder"
	done
	wait_until "$unit tells of its folders" says "$unit" "(2 folders: 1 read-only, 1 writable)"
	for folder in config_test config_test_writable; do
		task "$TASKS/mounts.yml" "" repository=busybox image-tag=latest "folder=$folder"
	done
	unmount "$name"
}

# unmount CONTAINER also comes after a failure: a container whose device has lost
# its folder does not start again.
unmount() {
	local folder
	for folder in config-test config-test-writable; do
		if [[ -n $DRY ]] || lxc config device get "$1" "$folder" source >/dev/null 2>&1; then
			run lxc config device remove "$1" "$folder"
		fi
	done
	[[ -n $DRY ]] || rm -f "$WORK/mounted"
}

step_tagged() {
	session
	run juju config --model "$MODEL" "$WORKER_APP" tag=special-worker
	wait_until "a worker has the tag" workers_with 1 special-worker
	task "$HERE/deploy-test/hello.yml" special-worker
	# A worker with tags takes no other task: the next steps need it without.
	run juju config --model "$MODEL" "$WORKER_APP" --reset tag
	wait_until "a worker is without tags again" untagged_workers 1
}

# gpu_step VENDOR RUNTIME NAME-IN-STATUS: passes a GPU of the vendor, sets the
# option, and waits for status and tags. The GPU is found by its vendor, not by
# the nodes that some driver made.
gpu_step() {
	local vendor=$1 runtime=$2 label=$3 unit pci=$PCI cards
	if [[ -z $DRY ]]; then
		if ! command -v lxc >/dev/null; then skip "there is no lxc here to look for a GPU with"; fi
		cards=$(gpus "$(vendor_id "$vendor")")
		[[ -n $cards ]] || skip "this host has no $vendor GPU (lxc query /1.0/resources)"
		if [[ -n $GPU_ID ]]; then
			pci=$(awk -F '\t' -v id="$GPU_ID" '$2 == id { print $1 }' <<<"$cards")
			[[ -n $pci ]] || skip "the card with the id $GPU_ID is not one of the $vendor GPUs: ${cards//$'\n'/; }"
		elif [[ -n $pci ]] && ! cut -f 1 <<<"$cards" | grep -qx -- "$pci"; then
			skip "the card at $pci is not one of the $vendor GPUs: ${cards//$'\n'/; }"
		fi
	elif [[ -n $GPU_ID ]]; then
		pci="ADDRESS-OF-ID-$GPU_ID"
	fi
	session
	unit=$(worker_unit)
	run env "MODEL=$MODEL" "$HERE/pass-gpu.sh" "$unit" --vendor "$vendor" ${pci:+--pci "$pci"}
	run juju config --model "$MODEL" "$WORKER_APP" "compute-runtime=$runtime"
	wait_until "$unit counts its GPU" says "$unit" "(GPU: 1x $label)"
	wait_until "a worker has its tags" workers_with 1 gpu "compute-runtime=$runtime"
	action "$unit" verify-gpu
}

# gpu_end VENDOR gives the worker back as it was.
gpu_end() {
	local unit
	unit=$(worker_unit)
	run juju config --model "$MODEL" "$WORKER_APP" --reset compute-runtime
	wait_until "a worker is without tags again" untagged_workers 1
	run env "MODEL=$MODEL" "$HERE/pass-gpu.sh" "$unit" --vendor "$1" --remove
}

step_rocm() {
	gpu_step amd rocm AMD
	task "$TASKS/verify-gpu-amd.yml" "gpu compute-runtime=rocm" "repository=$ROCM_IMAGE" "image-tag=$ROCM_IMAGE_TAG"
	task "$TASKS/verify-rocm-tools.yml" "gpu compute-runtime=rocm" "repository=$ROCM_IMAGE" "image-tag=$ROCM_IMAGE_TAG"
	gpu_end amd
}

# step_pytorch has torch compare the GPU's work with the processor's.
step_pytorch() {
	gpu_step amd rocm AMD
	task "$TASKS/benchmark-matmul.yml" "gpu compute-runtime=rocm" "repository=$PYTORCH_IMAGE" "image-tag=$PYTORCH_IMAGE_TAG"
	gpu_end amd
}

step_cuda() {
	gpu_step nvidia cuda NVIDIA
	task "$TASKS/verify-gpu-cuda.yml" "gpu compute-runtime=cuda" "repository=$CUDA_IMAGE" "image-tag=$CUDA_IMAGE_TAG"
	gpu_end nvidia
}
