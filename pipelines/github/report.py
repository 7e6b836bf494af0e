"""Writes the report of the profile in profile/ into report/ and into the job's summary.

With GPU_BASELINE the profile is compared with BASELINE, a profile in source/, and the step fails
beyond the limits, as the task compare-profile does. Without it the report is a table.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile

from annotations import append

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tasks", "rocm")


def compare():
    """Runs compare_profile.sh and returns its exit status."""
    for name in ("baseline", "next"):
        os.makedirs(name, exist_ok=True)
    wanted = os.environ.get("BASELINE", "")
    if wanted:
        shutil.copy(os.path.join("source", wanted), "baseline/baseline-1.json")
    else:  # as the resource of Concourse has it while nothing is stored
        with open("baseline/baseline-0.json", "w", encoding="utf-8") as f:
            json.dump({"examples": {}}, f)
    env = dict(os.environ, ACCEPT="never", REFERENCE_LIMITS="")
    return subprocess.run(["sh", os.path.join(SCRIPTS, "compare_profile.sh")], env=env).returncode


def cell(value):
    """Returns a value as text of a table: no markup, no second line."""
    text = str(value) if isinstance(value, (int, float, str)) else "?"
    return "".join(c if c.isalnum() or c in " ._-+()[]/=" else "?" for c in text)[:80]


def table(path):
    """Writes the table of the examples, and the archive that a release takes it from."""
    with open(path, encoding="utf-8") as f:
        profile = json.load(f)
    lines = ["| example | status | seconds | MB |", "|---|---|---|---|"]
    for name, one in profile["examples"].items():
        lines.append("| " + " | ".join(cell(v) for v in (
            name, one.get("status"), one.get("duration_s"), one.get("peak_memory_mb"))) + " |")
    with open("report/report.md", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    name = os.path.basename(path).removeprefix("profile-").removesuffix(".json")
    with tarfile.open(f"report/report-{name}.tar", "w") as t:
        t.add(path, "profile.json")
        t.add("report/report.md", "report.md")


def main():
    status = 0
    if os.environ.get("GPU_BASELINE"):
        status = compare()
    else:
        found = glob.glob("profile/profile-*.json")
        if len(found) != 1:
            raise ValueError(f"profile has {len(found)} profiles, want 1")
        table(found[0])
    if os.path.exists("report/report.md"):
        with open("report/report.md", encoding="utf-8") as f:
            append("GITHUB_STEP_SUMMARY", f.read())
    sys.exit(status)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, AttributeError) as e:
        sys.exit(f"FAILED: {e}")
