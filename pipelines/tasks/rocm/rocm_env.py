"""Prepares the environment of a task and runs one of the scripts beside this one in it.

ROCM_EXTRA_BIN_DIRS and ROCM_EXTRA_LIB_DIRS are absolute paths with colons between them
(semicolons on Windows), which come first in PATH and in the path of libraries: for an
image that keeps parts of ROCm elsewhere. If ROCm is not in ROCM_PATH or its usual folder,
Python's packages of ROCm name the place. Prints which ROCm and which Python the task has.

    rocm_env.py hip_check.py
"""
import glob
import importlib.util
import os
import platform
import subprocess
import sys

WINDOWS = os.name == "nt"
HERE = os.path.dirname(os.path.abspath(__file__))


def extra(name):
    """The folders of a variable that are there."""
    found = []
    for folder in os.environ.get(name, "").split(os.pathsep):
        if not folder:
            continue
        if not os.path.isabs(folder):
            raise ValueError(f"{name} has {folder!r}, which is no absolute path")
        if os.path.isdir(folder):
            found.append(folder)
        else:
            print(f"{name}: there is no folder {folder} on this machine")
    return found


def first(env, name, folders):
    """Puts folders before those that the variable has."""
    if folders:
        env[name] = os.pathsep.join(folders + [d for d in [env.get(name, "")] if d])


def numbers(path):
    """Returns the numbers of a folder that is named by a release."""
    return [int(n) for n in os.path.basename(path).split(".") if n.isdigit()]


def usual():
    """Returns the folders in which AMD's installers put ROCm, the newest release first."""
    if not WINDOWS:
        return ["/opt/rocm"]
    base = os.path.join(os.environ.get("ProgramFiles", r"C:\Program Files"), "AMD", "ROCm", "*")
    return [os.environ.get("HIP_PATH", "")] + sorted(glob.glob(base), key=numbers, reverse=True)


def of_packages():
    """Returns the folder of ROCm in Python's packages, "" without them.

    The package rocm[devel] names a folder with compilers; the runtime alone is in _rocm_sdk_core.
    """
    if importlib.util.find_spec("rocm_sdk"):
        told = subprocess.run([sys.executable, "-m", "rocm_sdk", "path", "--root"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        if told.returncode == 0 and os.path.isdir(told.stdout.strip()):
            return told.stdout.strip()
    core = importlib.util.find_spec("_rocm_sdk_core")
    return core.submodule_search_locations[0] if core and core.submodule_search_locations else ""


def find():
    """Returns the folder of ROCm and whether Python's packages named it; "" if there is none."""
    set_path = os.environ.get("ROCM_PATH", "")
    for folder in [set_path] if set_path else usual():
        if folder and os.path.isdir(folder):
            return folder, False
    found = of_packages()
    return found, bool(found)


def use(env, root, from_packages):
    """Lets programs and Python find ROCm below root. Images with /opt/rocm have it already."""
    if not root or not (WINDOWS or from_packages):
        return
    env.update(ROCM_PATH=root, ROCM_HOME=root, HIP_PATH=root)
    first(env, "PATH", [os.path.join(root, "bin")])
    if not WINDOWS:
        first(env, "LD_LIBRARY_PATH", [os.path.join(root, "lib")])


def release(root, from_packages):
    """The release of ROCm, in words."""
    if not root:
        place = os.environ.get("ROCM_PATH") or usual()[0] or "Program Files"
        return f"none in {place}: what Python's packages bring counts"
    if from_packages:
        told = subprocess.run([sys.executable, "-m", "rocm_sdk", "version"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return f"{told.stdout.strip() or 'of unknown release'} of Python's packages in {root}"
    try:
        with open(os.path.join(root, ".info", "version"), encoding="utf-8") as f:
            return f"{f.read().strip()} in {root}"
    except OSError:
        return f"of unknown release in {root}"


def isolate(env):
    """Returns the Python of the task: one in a new folder that sees the machine's packages if
    ROCM_VENV names the folder. Tasks on Windows run on the machine itself."""
    folder = os.environ.get("ROCM_VENV", "")
    if not folder:
        return sys.executable
    import venv  # images may lack it

    folder = os.path.abspath(folder)
    if not os.path.exists(os.path.join(folder, "pyvenv.cfg")):  # a later step of the same job has it
        venv.EnvBuilder(system_site_packages=True, with_pip=True, symlinks=not WINDOWS).create(folder)
    programs = os.path.join(folder, "Scripts" if WINDOWS else "bin")
    env["VIRTUAL_ENV"] = folder
    first(env, "PATH", [programs])
    return os.path.join(programs, "python.exe" if WINDOWS else "python")


def main():
    script = os.path.join(HERE, sys.argv[1])
    env = dict(os.environ, ROCM_MEASURE=os.path.join(HERE, "measure.py"))
    root, from_packages = find()
    use(env, root, from_packages)
    first(env, "PATH", extra("ROCM_EXTRA_BIN_DIRS"))
    # Read when a program starts, so it has to be a program of its own.
    first(env, "PATH" if WINDOWS else "LD_LIBRARY_PATH", extra("ROCM_EXTRA_LIB_DIRS"))
    python = isolate(env)
    print(f"ROCm: {release(root, from_packages)}")
    print(f"Python: {platform.python_version()} ({python})", flush=True)
    argv = ["sh", script] if script.endswith(".sh") else [python, script]
    if WINDOWS:  # exec there ends the task at once, before the script does
        sys.exit(subprocess.run(argv, env=env).returncode)
    os.execvpe(argv[0], argv, env)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
