"""Lists of GPU architectures, as AMD's compilers and PyTorch name them.

One place reads them, so that a build, its check and its documentation can't
differ: gfx90a:sramecc+:xnack- and gfx90a are the same architecture, an empty list
is an error, and nothing is guessed.

    rocm_arches.py export 'gfx90a, gfx942'     prints the variables of a build for a shell
"""
import os
import re
import shlex
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


def environment(archs):
    """Returns the variables from which a build takes its architectures.

    Torch's extensions read the first, other builds of HIP the second. ARCHES_VARIABLE names
    a third for the project, with commas, or with semicolons if the name ends in one.
    """
    variables = {"PYTORCH_ROCM_ARCH": ";".join(archs), "HIP_ARCHES": ",".join(archs)}
    wanted = os.environ.get("ARCHES_VARIABLE", "").strip()
    name = wanted.removesuffix(";")
    if name:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"ARCHES_VARIABLE is {wanted!r}; want the name of a variable, such as NUNCHAKU_HIP_ARCHES")
        variables[name] = (";" if wanted.endswith(";") else ",").join(archs)
    return variables


if __name__ == "__main__":
    try:
        for key, value in environment(parse(sys.argv[2])).items():
            print(f"export {key}={shlex.quote(value)}")
    except ValueError as e:
        sys.exit(f"FAILED: {e}")
