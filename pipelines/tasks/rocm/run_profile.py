"""Runs PROFILE_COMMAND in source/ and keeps the profile that it writes.

The command writes JSON to the path in PROFILE_JSON:
{"examples": {"<name>": {"status": "ok", "duration_s": 1.2, "peak_memory_mb": 3}}}
with seconds and MB; gpu-baseline reads it in the next step. Fails where the command
does, and where it does not write that file. The unit's record of the GPU's
clocks ($GPU_FIXED_CLOCKS_RECORD) is added as "fixed_clocks".
"""
import datetime
import json
import os
import sys
import time

import rocm_arches
import rocm_git
import rocm_project


WAIT = 30  # seconds for the unit's next look at the GPU, which comes each 6


def seconds(text):
    """A time of RFC 3339 as what time.time() is."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def judged(record, began, ended):
    """The record with what it tells of that time alone, where it tells when."""
    if "invalid_spans" not in record:
        return record
    reasons = [s["reason"] for s in record["invalid_spans"] if seconds(s["from"]) < ended and seconds(s["to"]) > began]
    return dict(record, valid=not reasons, reason=reasons[0] if reasons else "")


def read_clocks(began, ended):
    """Returns the unit's record of the measurement, after the first look that follows its end."""
    path = os.environ.get("GPU_FIXED_CLOCKS_RECORD")
    if not path:
        return {"valid": False, "reason": "this worker does not report whether the GPU was throttled"}
    while True:
        with open(path, encoding="utf-8") as f:
            record = json.load(f)
        if not record.get("level"):
            return record
        if record.get("looked") and seconds(record["looked"]) >= ended:
            return judged(record, began, ended)
        if time.time() > ended + WAIT:
            return dict(record, valid=False, reason="the unit did not look at the GPU after the end")
        time.sleep(1)


def show_failed(path):
    """Prints the examples that failed with their errors, if the profile has them."""
    try:
        with open(path, encoding="utf-8") as f:
            examples = json.load(f)["examples"]
        for name, one in examples.items():
            if one.get("error"):
                print(f"{name}: {one.get('status')}: {one['error']}", flush=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        print("PROFILE_COMMAND wrote no profile that names an example which failed", flush=True)


def main():
    if not os.environ["PROFILE_COMMAND"].strip():
        raise ValueError("PROFILE_COMMAND is empty; it has to measure something and write $PROFILE_JSON")
    archs = rocm_arches.parse(os.environ["ARCHITECTURES"])
    commit = rocm_git.commit("source")
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    path = os.path.abspath(f"profile/profile-{stamp}-{commit[:12]}.json")
    env = dict(os.environ, PROFILE_JSON=path, **rocm_arches.environment(archs))
    rocm_project.run("INSTALL_COMMAND", env)
    began = time.time()
    try:
        rocm_project.run("PROFILE_COMMAND", env)
    except ValueError:
        show_failed(path)
        raise
    ended = time.time()
    try:
        with open(path, encoding="utf-8") as f:
            profile = json.load(f)
    except FileNotFoundError:
        raise ValueError("PROFILE_COMMAND did not write $PROFILE_JSON") from None
    except ValueError as e:
        raise ValueError(f"what PROFILE_COMMAND wrote is no JSON: {e}") from None
    record = read_clocks(began, ended)
    if isinstance(profile, dict):
        profile["fixed_clocks"] = record
        with open(path, "w", encoding="utf-8") as f:
            json.dump(profile, f)
    print(f"measured: {os.path.basename(path)}")
    if record["valid"]:
        print(f"the GPU's clocks were fixed ({record['level']}), and it was not throttled")
    else:
        print(f"this profile counts for little: {record['reason']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
