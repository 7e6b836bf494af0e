#!/bin/sh
# Prints what is known of a run when its job ends: gpukit why, which only root may read, or the
# health of the machine's GPUs. The argument is the run. It never fails.

run=$1
if text=$(gpukit why "$run" 2>/dev/null); then
    printf '%s\n' "$text"
    exit 0
fi
gpukit gpu health 2>&1 || true
echo "After the job, on $(uname -n): sudo gpukit why $run"
