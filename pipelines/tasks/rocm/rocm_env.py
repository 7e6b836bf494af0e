"""Prepares the environment of a task and runs one of the scripts beside this one in it.

ROCM_EXTRA_BIN_DIRS and ROCM_EXTRA_LIB_DIRS are absolute paths with colons between
them, which come first in PATH and LD_LIBRARY_PATH: for an image that keeps parts of
ROCm elsewhere. Says which ROCm and which Python the task has.

    rocm_env.py hip_check.py
"""
import os
import platform
import sys


def extra(name):
    """The folders of a variable that are there."""
    found = []
    for folder in os.environ.get(name, "").split(":"):
        if not folder:
            continue
        if not os.path.isabs(folder):
            raise ValueError(f"{name} has {folder!r}, which is no absolute path")
        if os.path.isdir(folder):
            found.append(folder)
        else:
            print(f"{name}: there is no folder {folder} in this image")
    return found


def first(env, name, folders):
    """Puts folders before those that the variable has."""
    if folders:
        env[name] = ":".join(folders + [d for d in [env.get(name, "")] if d])


def rocm():
    """The release of ROCm that the image has, in words."""
    home = os.environ.get("ROCM_PATH") or "/opt/rocm"
    try:
        with open(os.path.join(home, ".info", "version"), encoding="utf-8") as f:
            return f"{f.read().strip()} in {home}"
    except OSError:
        return f"none in {home}: what Python's packages bring counts"


def main():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv[1])
    env = dict(os.environ)
    first(env, "PATH", extra("ROCM_EXTRA_BIN_DIRS"))
    # Read when a program starts, so it has to be a program of its own.
    first(env, "LD_LIBRARY_PATH", extra("ROCM_EXTRA_LIB_DIRS"))
    print(f"ROCm: {rocm()}")
    print(f"Python: {platform.python_version()} ({sys.executable})", flush=True)
    argv = ["sh", script] if script.endswith(".sh") else [sys.executable, script]
    os.execvpe(argv[0], argv, env)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
