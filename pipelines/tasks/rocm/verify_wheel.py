"""Installs the wheel of wheels/ into a folder of its own and imports MODULE.

Fails where the wheel is for other architectures than ARCHITECTURES, does not
install, does not import, or where what is imported comes from elsewhere.
"""
import os
import shlex
import subprocess
import sys
import tempfile

import rocm_arches
import rocm_wheel

def main():
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    module = os.environ["MODULE"]
    with tempfile.TemporaryDirectory() as tmp:
        wheel, build = rocm_wheel.unpack("wheels", tmp)
        print(f"{build['wheel']} of {build['commit']}")
        if build["architectures"] != archs:
            raise ValueError(f"the wheel was built for {','.join(build['architectures'])}, want {','.join(archs)}")
        rocm_wheel.check_architectures(wheel, archs)
        # A folder of its own has all that the wheel depends on, whatever the image has.
        # Not a virtual environment, whose module Debian's Python has in another package.
        installed = os.path.join(tmp, "installed")
        subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--target", installed,
                        *shlex.split(os.environ["PIP_ARGS"]), wheel], check=True)
        rocm_wheel.check_import(installed, module)
    print(f"{module} installs and imports")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
