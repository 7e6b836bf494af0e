"""Writes annotations and the summary of a job, as GitHub's runner reads them."""
import os


def _data(text):
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotate(level, title, text):
    """Prints an annotation. The level is error, warning or notice."""
    name = _data(title).replace(":", "%3A").replace(",", "%2C")
    print(f"::{level} title={name}::{_data(text)}", flush=True)


def append(variable, text):
    """Adds lines to the runner's file in a variable, such as GITHUB_STEP_SUMMARY or GITHUB_PATH."""
    path = os.environ.get(variable)
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(text.rstrip("\n") + "\n")
