"""Lists of GPU architectures, as AMD's compilers and PyTorch name them.

One place reads them, so that a build, its check and its documentation can't
differ: gfx90a:sramecc+:xnack- and gfx90a are the same architecture, an empty list
is an error, and nothing is guessed.

    rocm_arches.py ';' 'gfx90a, gfx942'     prints gfx90a;gfx942
"""
import re
import sys

# What follows a colon are settings of the card, which code for the plain
# architecture runs with.
_ARCH = re.compile(r"gfx[0-9]{1,3}[0-9a-f]{2}")


def normalise(name):
    """The architecture without settings; ValueError where it is none."""
    arch = name.strip().lower().split(":")[0]
    if not _ARCH.fullmatch(arch):
        raise ValueError(f"{name.strip()!r} is no architecture of a GPU, such as gfx90a")
    return arch


def unique(names):
    """The normalised names in their order, each once."""
    return list(dict.fromkeys(normalise(n) for n in names))


def parse(text):
    """The architectures of a list with commas, semicolons or spaces between them."""
    found = unique(n for n in re.split(r"[,;\s]+", text) if n)
    if not found:
        raise ValueError("the list of architectures is empty; name those to build for, such as gfx90a,gfx942")
    return found


if __name__ == "__main__":
    try:
        print(sys.argv[1].join(parse(sys.argv[2])))
    except ValueError as e:
        sys.exit(f"FAILED: {e}")
