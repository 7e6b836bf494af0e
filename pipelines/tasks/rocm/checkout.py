"""Copies pull-request/ to source/, and of its .git only what git needs to read commits.

The resource clones with a token in the URL, which stays in .git/config. What is copied is
listed, and not what is left out: submodules and extensions of git keep such URLs, too.
"""
import os
import shutil
import sys

import rocm_git

_KEPT = ("HEAD", "index", "objects", "packed-refs", "refs", "shallow")


def copy(source, into, wanted):
    """Copies what is wanted of a folder; links stay links, wherever they lead."""
    for name in filter(wanted, os.listdir(source)):
        path, to = os.path.join(source, name), os.path.join(into, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.copytree(path, to, symlinks=True)
        else:
            shutil.copy2(path, to, follow_symlinks=False)


def main():
    copy("pull-request", "source", lambda name: name != ".git")
    os.mkdir("source/.git")
    copy("pull-request/.git", "source/.git", lambda name: name in _KEPT)
    print(f"merged with its branch: {rocm_git.commit('source')}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, shutil.Error) as e:
        sys.exit(f"FAILED: {e}")
