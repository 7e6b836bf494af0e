"""Prepares the runner's workspace for a job: empty folders, and ROCm for all later steps.

A runner keeps its workspace between jobs, so the folders of the previous job are removed.
RUNNER_ROCM_PATH is the variable ROCM_PATH of the repository or organization; it comes before
the one in the runner's own environment.
"""
import os
import shutil
import sys

from annotations import annotate, append

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tasks", "rocm"))
import rocm_env  # noqa: E402

OUTPUTS = ("built", "profile", "report")
OTHERS = ("baseline", "dist", "linux-build", "linux-wheels", "next", "release", "reports", "tag", "venv", "wheel", "wheels",
          "windows-build")


def clean():
    """Removes the folders of the previous job and makes those that scripts write to."""
    for name in OUTPUTS + OTHERS:
        if os.path.lexists(name):
            shutil.rmtree(name)
    for name in OUTPUTS:
        os.mkdir(name)


def use_rocm():
    """Puts ROCm's programs first in the PATH of all later steps."""
    wanted = os.environ.get("RUNNER_ROCM_PATH", "")
    if wanted:
        if "\n" in wanted or not os.path.isabs(wanted):
            raise ValueError(f"the variable ROCM_PATH is {wanted!r}, which is no absolute path")
        if not os.path.isdir(wanted):
            raise ValueError(f"the variable ROCM_PATH is {wanted}, which is no folder on this runner")
        os.environ["ROCM_PATH"] = wanted
        append("GITHUB_ENV", f"ROCM_PATH={wanted}\nROCM_HOME={wanted}\nHIP_PATH={wanted}")
    root, from_packages = rocm_env.find()
    print(f"ROCm: {rocm_env.release(root, from_packages)}")
    if root:
        append("GITHUB_PATH", os.path.join(root, "bin"))


if __name__ == "__main__":
    try:
        clean()
        use_rocm()
    except (OSError, ValueError) as e:
        annotate("error", "The workspace or ROCm's paths cannot be prepared", str(e))
        sys.exit(f"FAILED: {e}")
