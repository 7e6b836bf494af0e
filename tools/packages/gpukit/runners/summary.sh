#!/bin/sh
# Prints what is known of a run at the end of its job: gpukit why, which a process of the run may
# read. If the run has no record, it prints the health of the machine's GPUs. The argument is the
# run. It never fails.

run=$1
gpukit why "$run" 2>/dev/null || gpukit gpu health 2>&1 || true
echo "After the job, on $(uname -n): sudo gpukit why $run"
