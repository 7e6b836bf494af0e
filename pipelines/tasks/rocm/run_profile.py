"""Runs PROFILE_COMMAND in source/ and keeps the profile that it writes.

The command writes JSON to the path in PROFILE_JSON:
{"examples": {"<name>": {"status": "ok", "duration_s": 1.2, "peak_memory_mb": 3}}}
with seconds and MB; gpu-baseline reads it in the next step. Fails where the command
does, and where it does not write that file.
"""
import json
import os
import subprocess
import sys
import time

import rocm_arches
import rocm_git


def main():
    command = os.environ["PROFILE_COMMAND"]
    if not command.strip():
        raise ValueError("PROFILE_COMMAND is empty; it has to measure something and write $PROFILE_JSON")
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    commit = rocm_git.commit("source")
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    path = os.path.abspath(f"profile/profile-{stamp}-{commit[:12]}.json")
    env = dict(os.environ, PROFILE_JSON=path, PYTORCH_ROCM_ARCH=";".join(archs))
    for step in (os.environ["INSTALL_COMMAND"], command):
        if step.strip():
            subprocess.run(["sh", "-ec", step], cwd="source", env=env, check=True)
    try:
        with open(path, encoding="utf-8") as f:
            json.load(f)
    except FileNotFoundError:
        raise ValueError("PROFILE_COMMAND did not write $PROFILE_JSON") from None
    except ValueError as e:
        raise ValueError(f"what PROFILE_COMMAND wrote is no JSON: {e}") from None
    print(f"measured: {os.path.basename(path)}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
