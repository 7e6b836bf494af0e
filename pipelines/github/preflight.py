"""Compares the runner's machine with the requirements of ROCm builds, as a table in the log and in
the job's summary. It fails if no later step could explain the trouble, and warns otherwise.
"""
import concurrent.futures
import ctypes
import glob
import http.client
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

from annotations import annotate, append

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tasks", "rocm"))
import rocm_env  # noqa: E402

# What is lacking of "64 GB" and "200 GB" is the firmware's part and other partitions.
REQUIRED = {
    "Linux": {"memory": 62e9, "hosts": ("github.com", "pypi.org", "repo.radeon.com")},
    "Windows": {"memory": 31e9, "hosts": ("github.com", "pypi.org", "download.pytorch.org", "download.microsoft.com")},
}
DISK, FREE = 195e9, 20e9
CMAKE = (3, 26)
WINDOWS_11_22H2 = 22621
SECONDS = 15  # for an answer of a host


def numbers(text):
    """Returns the first version in a text as numbers: (3, 26, 4)."""
    found = re.search(r"\d+(\.\d+)+", text or "")
    return tuple(int(n) for n in found.group().split(".")) if found else ()


def ask(*argv):
    """Returns the first line of a program's output, "" if it is missing or fails."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.splitlines() or [""])[0] if done.returncode == 0 else ""


def reached(host):
    try:
        urllib.request.urlopen(urllib.request.Request(f"https://{host}/", method="HEAD"), timeout=SECONDS).close()
    except urllib.error.HTTPError:
        return True  # an answer
    except (OSError, http.client.HTTPException):
        return False
    return True


def linux_memory():
    with open("/proc/meminfo", encoding="ascii") as f:
        return int(f.readline().split()[1]) * 1024


def windows_memory():
    """Returns ullTotalPhys of MEMORYSTATUSEX in bytes."""
    status = (ctypes.c_ulonglong * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return status[1]


def release():
    """Returns the values of /etc/os-release."""
    with open("/etc/os-release", encoding="utf-8") as f:
        return {k: v.strip('"') for k, _, v in (line.strip().partition("=") for line in f)}


def build_tools():
    """Returns the version of Visual Studio's C++ tools, "" without them."""
    vswhere = os.path.join(os.environ.get("ProgramFiles(x86)", ""), "Microsoft Visual Studio", "Installer", "vswhere.exe")
    return ask(vswhere, "-latest", "-products", "*", "-requires", "Microsoft.VisualStudio.Component.VC.Tools.x86.x64",
               "-property", "installationVersion")


def gather():
    """Returns the facts of this machine."""
    system = platform.system()
    disk = shutil.disk_usage(os.getcwd())
    root, _ = rocm_env.find()
    facts = {"system": system, "python": platform.python_version(), "total": disk.total, "free": disk.free, "rocm": root,
             "venv": ask(sys.executable, "-c", "import ensurepip, venv; print(1)") != "",
             "git": ask("git", "--version"), "cmake": ask("cmake", "--version"), "ninja": ask("ninja", "--version"),
             "hipcc": shutil.which("hipcc") or shutil.which("hipcc", path=os.path.join(root, "bin")) or ""}
    if system == "Windows":
        facts.update(os=platform.platform(), build=sys.getwindowsversion().build, memory=windows_memory(), build_tools=build_tools(),
                     runtime=bool(glob.glob(os.path.join(os.environ.get("SystemRoot", r"C:\Windows"), "System32", "amdhip64*.dll"))))
    else:
        drawing = glob.glob("/dev/dri/renderD*")
        about = release()
        facts.update(os=about.get("PRETTY_NAME", ""), id=about.get("ID", ""), memory=linux_memory(),
                     denied=[n for n in ("/dev/kfd", *drawing) if os.path.exists(n) and not os.access(n, os.R_OK | os.W_OK)],
                     gpu=os.path.exists("/dev/kfd") and drawing != [], rocminfo=shutil.which("rocminfo", path=os.path.join(root, "bin")) or shutil.which("rocminfo") or "",
                     libraries=[n for n in ("rocblas", "hipblaslt", "hipfft") if not glob.glob(os.path.join(root, "lib", f"lib{n}.so*"))])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        hosts = REQUIRED.get(system, REQUIRED["Linux"])["hosts"]
        facts["unreached"] = [h for h, ok in zip(hosts, pool.map(reached, hosts)) if not ok]
    return facts


def row(name, text, *checks):
    """Returns (name, level, text, fix). The first check that holds is (condition, level, fix)."""
    for condition, level, fix in checks:
        if condition:
            return name, level, text, fix
    return name, "ok", text, ""


def of_linux(f):
    device = "its nodes are open" if f["gpu"] else "/dev/kfd or /dev/dri/renderD* is missing"
    return [
        row("system", f["os"], (f["id"] != "ubuntu", "warning", "AMD supports ROCm on Ubuntu 22.04 and other systems that its page of requirements lists.")),
        row("GPU", f"no access to {', '.join(f['denied'])}" if f["denied"] else device,
            (f["denied"], "warning", "Add the runner's user to the groups render and video, and start the runner again."),
            (not f["gpu"], "warning", "Install the driver amdgpu, or pass the GPU to this machine.")),
        row("ROCm", f["rocm"] or "not found", (not f["rocm"], "warning", "Install ROCm, or set the variable ROCM_PATH of the repository.")),
        row("ROCm's libraries", f"missing: {', '.join(f['libraries'])}" if f["libraries"] else "rocblas, hipblaslt, hipfft",
            (f["libraries"], "warning", "Install the packages rocblas, hipblaslt and hipfft, or set rocm-extra-lib-dirs.")),
        row("rocminfo", f["rocminfo"] or "not found", (not f["rocminfo"], "warning", "Install rocminfo: builds may ask it for HIP targets.")),
    ]


def of_windows(f):
    return [
        row("system", f["os"], (f["build"] < WINDOWS_11_22H2, "error", "Install Windows 11 22H2 or newer.")),
        row("GPU", "the HIP runtime is installed" if f["runtime"] else "amdhip64 is missing in System32",
            (not f["runtime"], "warning", "Install AMD Software: PRO Edition with ROCm.")),
        row("ROCm", f["rocm"] or "not found", (not f["rocm"], "warning", "Install the HIP SDK, or set the variable ROCM_PATH of the repository.")),
        row("Visual Studio Build Tools", f["build_tools"] or "not found",
            (numbers(f["build_tools"]) < (17,), "warning", "Install Visual Studio Build Tools 2022 with the workload Desktop C++.")),
    ]


def rows(f):
    """Returns the rows of the table for the facts of a machine."""
    system = "Windows" if f["system"] == "Windows" else "Linux"
    least = REQUIRED[system]["memory"]
    return (of_windows if system == "Windows" else of_linux)(f) + [
        row("hipcc", f["hipcc"] or "not found", (not f["hipcc"], "warning", "Install ROCm's compiler: package rocm-dev or the HIP SDK.")),
        row("memory", f"{f['memory'] / 1e9:.0f} GB", (f["memory"] < least, "warning", f"Builds may fail with less than {round(least / 1e9 / 32) * 32} GB.")),
        row("disk", f"{f['total'] / 1e9:.0f} GB, {f['free'] / 1e9:.0f} GB free",
            (f["free"] < FREE, "error", "Free at least 20 GB."), (f["total"] < DISK, "warning", "Builds may fail with less than 200 GB.")),
        row("Python", f["python"], (numbers(f["python"]) < (3, 10), "error", "Install Python 3.10 or newer, and name it in the input python.")),
        row("venv", "found" if f["venv"] else "not found", (not f["venv"], "error", "Install the module venv: package python3-venv.")),
        row("Git", f["git"] or "not found", (not f["git"], "warning", "Install git: submodules and versions need it.")),
        row("CMake", f["cmake"] or "not found", (numbers(f["cmake"]) < CMAKE, "warning", "Install CMake 3.26 or newer, also possible in install-command.")),
        row("Ninja", f["ninja"] or "not found", (not f["ninja"], "warning", "Install ninja, also possible in install-command.")),
        row("HTTPS", f"no answer of {', '.join(f['unreached'])}" if f["unreached"] else "all hosts answer",
            (f["unreached"], "warning", "Open port 443 to these hosts, or set https_proxy in the runner's file .env.")),
    ]


def main():
    found = rows(gather())
    for name, level, text, fix in found:
        print(f"{level:8}{name}: {text}")
        if level == "error":
            annotate(level, f"Runner: {name}", f"{text}\n{fix}")
    warnings = [f"{name}: {text}. {fix}" for name, level, text, fix in found if level == "warning"]
    if warnings:  # in one: GitHub shows ten of a step
        annotate("warning", "The runner's machine", "\n".join(warnings))
    lines = [f"| {name} | {level} | {text} | {fix} |" for name, level, text, fix in found]
    append("GITHUB_STEP_SUMMARY", "\n".join(["| runner | | | fix |", "|---|---|---|---|", *lines, ""]))
    if any(level == "error" for _, level, _, _ in found):
        sys.exit("FAILED: this machine lacks what a job needs")


if __name__ == "__main__":
    main()
