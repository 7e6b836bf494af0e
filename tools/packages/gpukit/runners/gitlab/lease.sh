# shellcheck shell=sh
# pre_build_script of GitLab's executor shell, which reads it in the shell of the job: leases
# GPUs for that shell and all it starts.
#
# GPUKIT_GPUS in the job's variables is the number of GPUs, 1 without it, 0 for none.
# GPUKIT_WAIT is the longest wait, such as 30m. GPUKIT_BENCH=1 fixes their clocks.

if [ "${GPUKIT_GPUS:-1}" != 0 ]; then
    # This shell's own process. $$ would be its parent, because the job runs in a subshell.
    gpukit_pid=$(exec sh -c 'echo "$PPID"')
    gpukit_env=$(gpukit lease --pid "$gpukit_pid" --gpus "${GPUKIT_GPUS:-1}" ${GPUKIT_WAIT:+--wait "$GPUKIT_WAIT"} ${GPUKIT_BENCH:+--bench}) || exit 1
    while IFS= read -r gpukit_line; do
        export "${gpukit_line?}"
    done <<EOT
$gpukit_env
EOT
    unset gpukit_pid gpukit_env gpukit_line
fi
