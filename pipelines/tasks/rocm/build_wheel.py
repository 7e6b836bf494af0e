"""Builds source/ as a wheel for ARCHITECTURES, and archives it in built/.

The image's torch compiles the extension, so the build is not isolated from it.
"""
import os
import platform
import subprocess
import sys
import time

import rocm_arches
import rocm_git
import rocm_project
import rocm_wheel
import windows_wheel


def dll_folders():
    """Returns the folders that have the DLLs of HIP and ROCm, in the order of rocm_env.py."""
    more = [os.environ.get(name, "").split(os.pathsep) for name in ("ROCM_EXTRA_LIB_DIRS", "ROCM_EXTRA_BIN_DIRS")]
    return [folder for folders in more for folder in folders if folder] + [os.path.join(os.environ.get("ROCM_PATH", ""), "bin")]


def main():
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    commit = rocm_git.commit("source")
    env = dict(os.environ, **rocm_arches.environment(archs))
    print(f"building {commit} for {' '.join(archs)}", flush=True)
    rocm_project.run("INSTALL_COMMAND", env)
    made = os.path.join("dist", "rocm")
    os.makedirs(made, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
                    "--wheel-dir", os.path.abspath(made), "."], cwd="source", env=env, check=True)
    wheels = [n for n in os.listdir(made) if n.endswith(".whl")]
    if len(wheels) != 1:
        raise ValueError(f"the build made {len(wheels)} wheels, want 1")
    wheel = os.path.join(made, wheels[0])
    rocm_wheel.check_architectures(wheel, archs)
    bundled = []
    if "ALLOWED_DLLS" in os.environ:  # of tasks on Windows
        bundled = windows_wheel.bundle(wheel, os.environ["ALLOWED_DLLS"].split(","), dll_folders())
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    build = rocm_wheel.pack(f"built/wheel-{stamp}-{commit[:12]}.tar", wheel,
                            {"commit": commit, "architectures": archs, "python": platform.python_version(), "bundled": bundled})
    print(f"{build['wheel']} {build['sha256']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
