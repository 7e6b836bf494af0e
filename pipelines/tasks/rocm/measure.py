"""Measures time and peak memory of examples, for projects without a profiler.

    python3 "$ROCM_MEASURE" --times 3 examples/edit.py bench.cases:attention "matmul=./bench -n 4096" @examples/list.txt

An example is a script with arguments, a callable as module:function, or name=command. Of
@file each line is an example; empty lines and # are left out. Each run is a process. The
time is the median of the runs: of a callable without its import. The memory is torch's
peak, or for other programs the growth of the GPUs' memory in use, looked at fifty times a
second. The energy is the power of the task's GPUs over the time of a run, with what others on
them used; the median of the runs. Writes the profile to PROFILE_JSON or --output and fails if an example failed; that
one has the fields status and error.
"""
import argparse
import glob
import importlib
import json
import os
import runpy
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SYS, DEV = "/sys", "/dev"
LOOK = 0.02  # seconds between two looks at the memory of GPUs


def listed(words, seen=()):
    """Returns the examples of a command line, with the lines of @files in their place."""
    found = []
    for word in words:
        if not word.startswith("@"):
            found.append(word)
            continue
        path = os.path.abspath(word[1:])
        if path in seen:
            raise ValueError(f"{word[1:]} lists itself")
        with open(path, encoding="utf-8") as f:
            lines = [line.split("#")[0].strip() for line in f]
        inner = [line for line in lines if line]
        beside = os.path.dirname(path)
        inner = ["@" + os.path.join(beside, i[1:]) if i.startswith("@") else i for i in inner]
        found += listed(inner, seen + (path,))
    return found


def parse(example):
    """Returns the name of an example and the program that runs it, None for Python's own."""
    name, equals, command = example.partition("=")
    if equals and " " not in name.strip() and not name.endswith(".py"):
        argv = shlex.split(command, posix=os.name != "nt")
        if not name.strip() or not argv:
            raise ValueError(f"{example!r} is no example; want name=command")
        return name.strip(), argv
    first = shlex.split(example, posix=os.name != "nt")[0]
    if not first.endswith(".py") and ":" not in first:
        raise ValueError(f"{example!r} is no example; want a script.py, module:function or name=command")
    return example, None


def used():
    """Returns the bytes in use on the GPUs of this task; None without a GPU."""
    total = None
    for node in glob.glob(os.path.join(DEV, "dri", "renderD*")):
        path = os.path.join(SYS, "class", "drm", os.path.basename(node), "device", "mem_info_vram_used")
        try:
            with open(path, encoding="ascii") as f:
                total = (total or 0) + int(f.read())
        except (OSError, ValueError):
            continue
    return total


def watts():
    """Returns the power of the GPUs of this task; None if none of them reports it."""
    total = None
    for node in glob.glob(os.path.join(DEV, "dri", "renderD*")):
        device = os.path.join(SYS, "class", "drm", os.path.basename(node), "device")
        for path in sorted(glob.glob(os.path.join(device, "hwmon", "hwmon*", "power1_[ai]*"))):
            if os.path.basename(path) not in ("power1_average", "power1_input"):
                continue
            try:
                with open(path, encoding="ascii") as f:
                    micro = int(f.read())
            except (OSError, ValueError):
                continue
            if 0 < micro < 0xffffffff:  # neither a second die nor unknown
                total = (total or 0) + micro / 1e6
                break
    return total


class Growth:
    """Looks at the GPUs until it is left; peak is the growth of their memory in bytes, joules their energy, or None."""

    def __enter__(self):
        self.peak, self.joules, self._before, self._end = None, None, used(), threading.Event()
        self._last = None  # time and watts
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if self._before is not None:
            self._look()
            self._thread.start()
        return self

    def _watch(self):
        while not self._end.wait(LOOK):
            self._look()
        self._look()

    def _look(self):
        now = used()
        if now is not None:
            self.peak = max(self.peak or 0, now - self._before)
        power, at = watts(), time.perf_counter()
        if power is None:
            return
        if self._last is not None:
            self.joules = (self.joules or 0) + (power + self._last[1]) / 2 * (at - self._last[0])
        self._last = at, power

    def __exit__(self, *_):
        self._end.set()
        if self._before is not None:
            self._thread.join()


def reason(status):
    return f"ended by signal {-status}" if status < 0 else f"exits with {status}"


def once(example, argv):
    """Runs an example in a process and returns its measurement."""
    with tempfile.TemporaryDirectory() as tmp:
        result = os.path.join(tmp, "result.json")
        began = time.perf_counter()
        with Growth() as growth:
            own = [sys.executable, os.path.abspath(__file__), "--child", result, example]
            status = subprocess.run(argv or own).returncode
        one = {"status": "ok", "duration_s": time.perf_counter() - began}
        if growth.peak is not None:
            one["peak_memory_mb"] = growth.peak / 1e6
        if growth.joules is not None:
            one["energy_j"] = growth.joules
        if os.path.exists(result):
            with open(result, encoding="utf-8") as f:
                one.update(json.load(f))
        if status != 0:
            one = {"status": "failed", "error": one.get("error") or reason(status)}
        return one


def measure(example, times):
    """Measures an example several times; the first run that fails ends it."""
    name, argv = parse(example)
    runs = []
    for _ in range(times):
        runs.append(once(example, argv))
        if runs[-1]["status"] != "ok":
            return name, runs[-1]
    both = {"status": "ok", "duration_s": statistics.median(r["duration_s"] for r in runs)}
    peaks = [r["peak_memory_mb"] for r in runs if "peak_memory_mb" in r]
    if peaks:
        both["peak_memory_mb"] = max(peaks)
    energies = [r["energy_j"] for r in runs if "energy_j" in r]
    if energies:
        both["energy_j"] = statistics.median(energies)
    return name, both


def torch_peak():
    """Returns torch's peak memory of all GPUs in MB; None if torch was not imported or has none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e6


def child(result, example):
    """Runs Python's own example in this process and writes what it measured."""
    words = shlex.split(example, posix=os.name != "nt")
    sys.path.insert(0, os.getcwd())
    sys.argv = words
    one, status = {}, 0
    try:
        if words[0].endswith(".py"):
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
            began = time.perf_counter()
            runpy.run_path(words[0], run_name="__main__")
        else:
            module, _, function = words[0].partition(":")
            call = getattr(importlib.import_module(module), function)
            began = time.perf_counter()
            call(*words[1:])
        peak = torch_peak()  # waits for the GPU, so it is before the time
        one["duration_s"] = time.perf_counter() - began
        if peak is not None:
            one["peak_memory_mb"] = peak
    except SystemExit as e:
        one["duration_s"] = time.perf_counter() - began
        status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        one["error"] = e.code if isinstance(e.code, str) else reason(status)
    except Exception as e:  # of the project's code: whatever it raises is the example's error
        one["error"], status = f"{type(e).__name__}: {e}", 1
    with open(result, "w", encoding="utf-8") as f:
        json.dump(one, f)
    return status


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description="Measures time and peak memory of examples.", allow_abbrev=False)
    parser.add_argument("--output", default=os.environ.get("PROFILE_JSON"),
                        help="the profile; $PROFILE_JSON by default")
    parser.add_argument("--times", type=int, default=1, help="runs of each example")
    parser.add_argument("examples", nargs="+", help="script.py, module:function, name=command or @file")
    args = parser.parse_args()
    if not args.output or args.times < 1:
        parser.error("want --output, or PROFILE_JSON, and --times of 1 or more")
    examples = {}
    for example in listed(args.examples):
        name, one = measure(example, args.times)
        if name in examples:
            raise ValueError(f"the example {name!r} is listed twice")
        examples[name] = one
        told = one["error"] if "error" in one else f"{one['duration_s']:.3f} s"
        print(f"{name}: {one['status']}, {told}", flush=True)
    if not examples:
        raise ValueError("the lists name no example")
    with open(args.output, "w", encoding="utf-8") as f:
        json.dump({"examples": examples}, f, indent=1)
    return int(any(one["status"] != "ok" for one in examples.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
