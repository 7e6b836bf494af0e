"""What a checkout of the git resource says of itself; needs no git in the image."""
import os
import re


def _read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read().strip()


def commit(checkout):
    """The full id of the commit that is checked out."""
    git = os.path.join(checkout, ".git")
    head = _read(git, "HEAD")
    if head.startswith("ref: "):
        ref = head[len("ref: "):]
        try:
            head = _read(git, ref)
        except FileNotFoundError:
            # In a repository that git has packed, the branch has no file.
            lines = _read(git, "packed-refs").splitlines()
            head = next((line.split()[0] for line in lines if line.endswith(" " + ref)), "")
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", head):
        raise ValueError(f"cannot tell the commit of {checkout}: its HEAD is {head!r}")
    return head


def ref(checkout):
    """What the resource checked out: with a tag_filter, the tag's name."""
    return _read(checkout, ".git", "ref")
