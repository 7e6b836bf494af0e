#!/bin/sh
# run_exec of GitLab's custom executor, for jobs on this machine: SCRIPT STAGE. Only the job's
# own script leases GPUs. Variables of the job have the prefix CUSTOM_ENV_.

script=$1
stage=$2
gpus=${CUSTOM_ENV_GPUKIT_GPUS:-1}

if [ "$stage" = build_script ] && [ "$gpus" != 0 ]; then
    gpukit run --gpus "$gpus" ${CUSTOM_ENV_GPUKIT_WAIT:+--wait "$CUSTOM_ENV_GPUKIT_WAIT"} \
        ${CUSTOM_ENV_GPUKIT_BENCH:+--bench} \
        --name "${CUSTOM_ENV_CI_PROJECT_PATH:-gitlab} ${CUSTOM_ENV_CI_JOB_NAME:-} ${CUSTOM_ENV_CI_JOB_ID:-}" -- bash "$script"
else
    bash "$script"
fi
status=$?
case $status in
0) exit 0 ;;
125) exit "${SYSTEM_FAILURE_EXIT_CODE:-2}" ;; # gpukit itself failed, not the job
esac
# The job's own status, for allow_failure:exit_codes.
[ -z "${BUILD_EXIT_CODE_FILE:-}" ] || echo "$status" >"$BUILD_EXIT_CODE_FILE"
exit "${BUILD_FAILURE_EXIT_CODE:-1}"
