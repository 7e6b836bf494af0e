"""Writes again/comment.md if infrastructure failed the tasks of this build, and fails otherwise.

FLAKES_URL is the web's exporter. It knows the build by this task's container, whose handle is
the host name, and has the verdicts of workers on the tasks. It is asked until it blames
infrastructure, at most for PATIENCE seconds, as it asks the workers from time to time.
"""
import json
import os
import re
import shutil
import socket
import sys
import time
import urllib.error
import urllib.request

_LONGEST = 64 << 10  # bytes of an answer
_PAUSE = 10


def ask(url):
    """The sentence about this build; empty where infrastructure is not to blame, as yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = json.loads(answer.read(_LONGEST))
    except urllib.error.HTTPError as e:
        if e.code == 404:  # the container is not known yet
            return ""
        raise
    if not isinstance(text, dict) or text.get("infrastructure") is not True:
        return ""
    # It goes into a comment: no markup, no mention of people.
    return re.sub(r"[^A-Za-z0-9 .,:;()%/+-]", "?", str(text.get("sentence", "")))[:400]


def main():
    base = os.environ["FLAKES_URL"]
    if not base:
        raise ValueError("FLAKES_URL is empty, so the exporter of verdicts is unknown")
    if not base.startswith(("http://", "https://")):
        raise ValueError(f"FLAKES_URL is {base!r}; want one like http://10.0.0.10:9358")
    url = f"{base.rstrip('/')}/api/v1/flakes/build-of/{os.environ.get('CONTAINER') or socket.gethostname()}"
    end = time.monotonic() + float(os.environ["PATIENCE"])
    sentence = ask(url)
    while not sentence and time.monotonic() + _PAUSE < end:
        time.sleep(_PAUSE)
        sentence = ask(url)
    if not sentence:
        raise ValueError("there is no sign that infrastructure failed the build")
    print(sentence)
    with open("again/comment.md", "w", encoding="utf-8") as f:
        f.write(f"**{sentence}**\n\n")
        if os.path.isfile("report/comment.md") and not os.path.islink("report/comment.md"):
            with open("report/comment.md", encoding="utf-8") as table:
                shutil.copyfileobj(table, f)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
