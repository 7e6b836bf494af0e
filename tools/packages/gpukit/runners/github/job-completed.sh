#!/bin/sh
# Job hook of GitHub's runner (ACTIONS_RUNNER_HOOK_JOB_COMPLETED): adds the job's GPUs to its
# summary. It never fails the job. The lease ends with Runner.Worker.

run=$(sed -n 's/^GPUKIT_RUN=\([A-Za-z0-9-]*\)$/\1/p' "$RUNNER_TEMP/gpukit.env" 2>/dev/null || true)
case $run in '' | -*) exit 0 ;; esac

minutes=$((($(date +%s) - $(stat -c %Y "$RUNNER_TEMP/gpukit.env")) / 60))
{
    printf '### GPUs\n\n'
    sed -n 's/^gpukit: \(run-[0-9a-f]* has .*\)/\1/p' "$RUNNER_TEMP/gpukit.txt"
    printf '\nfor %s minutes\n\n' "$minutes"
    sh "${0%/*}/../summary.sh" "$run" | sed 's/^/    /' # indented text is shown as it is
} >>"$GITHUB_STEP_SUMMARY" || true
exit 0
