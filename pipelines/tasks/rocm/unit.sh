#!/bin/sh
# Installs what source/ needs and runs its tests, on the GPU: INSTALL_COMMAND, then
# UNIT_COMMAND, each in source/ by `sh -e`. Extensions are compiled for ARCHITECTURES.
# gpu-baseline prints the results of the JUnit files in JUNIT in one line of the output, which
# the web's page of flaky tests reads. They decide nothing.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
[ -n "$UNIT_COMMAND" ] || fail "UNIT_COMMAND is empty; name the tests to run"
PYTORCH_ROCM_ARCH=$("$PYTHON" "$(dirname "$0")/rocm_arches.py" ';' "$ARCHITECTURES")
export PYTORCH_ROCM_ARCH
cd source
[ -z "$INSTALL_COMMAND" ] || sh -ec "$INSTALL_COMMAND" || fail "INSTALL_COMMAND exits with $?"
exit=0
sh -ec "$UNIT_COMMAND" || exit=$?
[ -z "$JUNIT" ] || "$GPU_BASELINE" junit "$JUNIT" || echo "The page of flaky tests gets no results of this task." >&2
[ $exit = 0 ] || fail "UNIT_COMMAND exits with $exit"
