"""Checks the wheel for Windows in wheels/ on Linux: its architectures, and by the imports of
its files that it has every DLL which neither Windows, Python nor ALLOWED_DLLS brings."""
import os
import sys
import tempfile

import rocm_arches
import rocm_wheel
import windows_wheel


def main():
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    with tempfile.TemporaryDirectory() as tmp:
        wheel, build = rocm_wheel.unpack("wheels", tmp)
        rocm_wheel.check_architectures(wheel, archs, build.get("bundled", ()))
        windows_wheel.check(wheel, os.environ["ALLOWED_DLLS"].split(","))
        for name in build.get("bundled", ()):
            print(f"bundled: {name}")
        print(f"{build['wheel']} has every DLL that it needs")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
