"""Installs what source/ needs and runs its tests on the GPU: INSTALL_COMMAND, then
UNIT_COMMAND. Extensions are compiled for ARCHITECTURES."""
import os
import sys

import rocm_arches
import rocm_project


def main():
    if not os.environ["UNIT_COMMAND"].strip():
        raise ValueError("UNIT_COMMAND is empty; name the tests to run")
    env = dict(os.environ, **rocm_arches.environment(rocm_arches.parse(os.environ["ARCHITECTURES"])))
    rocm_project.run("INSTALL_COMMAND", env)
    rocm_project.run("UNIT_COMMAND", env)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
