#!/bin/sh
# Job hook of GitHub's runner (ACTIONS_RUNNER_HOOK_JOB_STARTED): leases GPUs for the whole
# job, and gives its steps the variables. An error fails the job before its first step.
#
# GPUKIT_GPUS in the runner's .env is the number of GPUs, 1 without it, 0 for none.
# GPUKIT_WAIT is the longest wait, such as 30m; without it the job waits until they are free.
# GPUKIT_BENCH=1 fixes their clocks.
set -eu

[ "${GPUKIT_GPUS:-1}" != 0 ] || exit 0

# Each job has its own Runner.Worker, which starts this hook and then all steps.
pid=$$
until case $(readlink "/proc/$pid/exe" || true) in */Runner.Worker | */Runner.Worker' (deleted)') ;; *) false ;; esac; do
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
    if [ "${pid:-0}" -le 1 ]; then
        echo 'cannot lease GPUs: this hook was not started by Runner.Worker' >&2
        exit 1
    fi
done

# The second hook does not get the variables that this one sets, so that it reads the files.
{
    gpukit lease --pid "$pid" --gpus "${GPUKIT_GPUS:-1}" ${GPUKIT_WAIT:+--wait "$GPUKIT_WAIT"} ${GPUKIT_BENCH:+--bench} \
        2>&1 >"$RUNNER_TEMP/gpukit.env" || : >"$RUNNER_TEMP/gpukit.failed"
} | tee "$RUNNER_TEMP/gpukit.txt" >&2
[ ! -e "$RUNNER_TEMP/gpukit.failed" ] || exit 1
cat "$RUNNER_TEMP/gpukit.env" >>"$GITHUB_ENV"
