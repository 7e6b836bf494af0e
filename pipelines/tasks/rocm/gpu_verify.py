"""Installs the wheel of wheels/ and runs the project's tests on a GPU of GFX with it.

The checkout in source/ loses what the wheel has, so that the tests can only find the
wheel. Fails where the GPU is not of GFX or does not compute, the wheel is for other
architectures than ARCHITECTURES or not for GFX, does not install or import, and where
INSTALL_COMMAND or WHEEL_COMMAND fails.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import hip_check
import rocm_arches
import rocm_project
import rocm_wheel


def hide(installed):
    """Takes out of the checkout what the wheel brought. Both have it under one name."""
    for name in os.listdir(installed):
        if name.endswith((".dist-info", ".data", "__pycache__")) or name == "bin":
            continue
        for folder in ("source", os.path.join("source", "src")):
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.remove(path)


def main():
    if not os.environ["WHEEL_COMMAND"].strip():
        raise ValueError("WHEEL_COMMAND is empty; name the tests that use the GPU")
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    gfx = rocm_arches.normalise(os.environ["GFX"])
    if gfx not in archs:
        raise ValueError(f"the wheel is for {','.join(archs)} and not for {gfx}: take {gfx} out of test-on, or add it to architectures")
    hip_check.check([gfx])
    with tempfile.TemporaryDirectory() as tmp:
        wheel, build = rocm_wheel.unpack("wheels", tmp)
        print(f"{build['wheel']} of {build['commit']}", flush=True)
        if build["architectures"] != archs:
            raise ValueError(f"the wheel was built for {','.join(build['architectures'])}, want {','.join(archs)}")
        rocm_wheel.check_architectures(wheel, archs, build.get("bundled", ()))
        env = dict(os.environ, **rocm_arches.environment([gfx]))
        rocm_project.run("INSTALL_COMMAND", env)
        # Without what it depends on: torch is the image's, which finds this GPU.
        installed = os.path.join(tmp, "installed")
        subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target", installed, wheel], check=True)
        rocm_wheel.check_import(installed, os.environ["MODULE"])
        hide(installed)
        env["PYTHONPATH"] = os.pathsep.join([installed] + [p for p in [env.get("PYTHONPATH", "")] if p])
        rocm_project.run("WHEEL_COMMAND", env)
    print(f"{build['wheel']} runs on {gfx}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
