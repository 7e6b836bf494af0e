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

_IMPORT = """
import importlib, site, sys
site.addsitedir(sys.argv[1])
sys.path.insert(0, sys.argv[1])
print(importlib.import_module(sys.argv[2]).__file__)
"""


def main():
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    module = os.environ["MODULE"]
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"MODULE is {module!r}, which is no name of a Python module")
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
        # -I: what this folder or PYTHONPATH has does not count.
        found = subprocess.run([sys.executable, "-I", "-c", _IMPORT, installed, module],
                               cwd=tmp, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        if not os.path.realpath(found).startswith(os.path.realpath(installed) + os.sep):
            raise ValueError(f"{module} comes from {found}, not from the wheel")
    print(f"{module} installs and imports")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
