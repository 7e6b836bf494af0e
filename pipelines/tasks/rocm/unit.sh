#!/bin/sh
# Installs what source/ needs and runs its tests, on the GPU: INSTALL_COMMAND, then
# UNIT_COMMAND, each in source/ by `sh -e`. Extensions are compiled for ARCHITECTURES.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
[ -n "$UNIT_COMMAND" ] || fail "UNIT_COMMAND is empty; name the tests to run"
PYTORCH_ROCM_ARCH=$("$PYTHON" "$(dirname "$0")/rocm_arches.py" ';' "$ARCHITECTURES")
export PYTORCH_ROCM_ARCH
cd source
[ -z "$INSTALL_COMMAND" ] || sh -ec "$INSTALL_COMMAND" || fail "INSTALL_COMMAND exits with $?"
sh -ec "$UNIT_COMMAND" || fail "UNIT_COMMAND exits with $?"
