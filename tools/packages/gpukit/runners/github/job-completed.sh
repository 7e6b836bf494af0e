#!/bin/sh
# Job hook of GitHub's runner (ACTIONS_RUNNER_HOOK_JOB_COMPLETED): adds to the job's summary
# its GPUs, and why it failed. It never fails the job. The lease ends with Runner.Worker.

run=$(sed -n 's/^GPUKIT_RUN=\([A-Za-z0-9-]*\)$/\1/p' "$RUNNER_TEMP/gpukit.env" 2>/dev/null || true)
case $run in '' | -*) exit 0 ;; esac

if text=$(gpukit why "$run" 2>&1); then
    # Indented text is shown as it is.
    printf '### GPUs\n\n%s\n' "$(printf '%s\n' "$text" | sed 's/^/    /')" >>"$GITHUB_STEP_SUMMARY"
else
    printf 'no summary of the GPUs: %s\n' "$text"
fi
exit 0
