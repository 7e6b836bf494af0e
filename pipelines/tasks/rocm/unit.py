"""Installs what source/ needs and runs its tests on the GPU: INSTALL_COMMAND, then
UNIT_COMMAND. Extensions are compiled for ARCHITECTURES.

gpu-baseline prints the results of the JUnit files in JUNIT in one line of the output, which
the web's page of flaky tests reads. They decide nothing."""
import os
import subprocess
import sys

import rocm_arches
import rocm_project


def results():
    if not os.environ.get("JUNIT"):
        return
    sys.stdout.flush()
    try:
        subprocess.run([os.environ["GPU_BASELINE"], "junit", os.environ["JUNIT"]], cwd="source", check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"The page of flaky tests gets no results of this task: {e}", file=sys.stderr)


def main():
    if not os.environ["UNIT_COMMAND"].strip():
        raise ValueError("UNIT_COMMAND is empty; name the tests to run")
    env = dict(os.environ, **rocm_arches.environment(rocm_arches.parse(os.environ["ARCHITECTURES"])))
    rocm_project.run("INSTALL_COMMAND", env)
    try:
        rocm_project.run("UNIT_COMMAND", env)
    finally:
        results()


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
