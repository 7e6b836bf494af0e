"""Wheels, the GPU code in them, and the archive that carries one between jobs.

The archive wheel-<time>-<commit>.tar has the wheel and build.json: its commit,
architectures, Python and SHA-256. A wheel's own name says nothing of the commit, so
a resource could not tell two builds of one version apart.
"""
import email
import hashlib
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile

import rocm_arches

# Clang's offload bundle (ClangOffloadBundler in LLVM's documentation): a magic, the
# number of entries, and of each its offset, its size, the length of its id and the
# id, such as hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-. Numbers are 64-bit, little end
# first. The linker puts one for each source file into the library.
_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
# The magic of a compressed one, then its version and method, 16-bit each.
_COMPRESSED = b"CCOB"


def _bundle(data, at):
    """The architectures of the bundle at this place; None where it is only the word."""
    try:
        at += len(_MAGIC)
        (entries,) = struct.unpack_from("<Q", data, at)
        at += 8
        if not 0 < entries <= 256:
            return None
        found = []
        for _ in range(entries):
            _, _, length = struct.unpack_from("<QQQ", data, at)
            at += 24
            if not 0 < length <= 256 or at + length > len(data):
                return None
            name = data[at:at + length].decode("ascii")
            at += length
            # Others are the host's, and portable code that names no GPU.
            if name.startswith("hip") and "-gfx" in name:
                found.append(name[name.rindex("-gfx") + 1:])
        return found
    except (struct.error, UnicodeDecodeError):
        return None


def _compressed(data):
    at = data.find(_COMPRESSED)
    while at >= 0:
        if len(data) >= at + 8 and 1 <= struct.unpack_from("<H", data, at + 4)[0] <= 3 and struct.unpack_from("<H", data, at + 6)[0] <= 2:
            return True
        at = data.find(_COMPRESSED, at + 1)
    return False


def architectures(data):
    """The architectures that a library has GPU code for, each once, in their order."""
    names, at = [], data.find(_MAGIC)
    while at >= 0:
        names += _bundle(data, at) or []
        at = data.find(_MAGIC, at + 1)
    return rocm_arches.unique(names)


def check_architectures(wheel, wanted, bundled=()):
    """Raises ValueError unless each library with GPU code has it for wanted, and
    for nothing else, and there is one. bundled are libraries of ROCm, which have more."""
    some = False
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            data = z.read(name)
            if name in bundled or not data.startswith((b"\x7fELF", b"MZ")):
                continue
            found = architectures(data)
            if not found and _compressed(data):
                raise ValueError(f"{name}: its GPU code is compressed, so nobody can tell for which architectures it is; build without --offload-compress")
            if not found:
                continue
            some = True
            print(f"{name}: {' '.join(found)}")
            missing = [a for a in wanted if a not in found]
            extra = [a for a in found if a not in wanted]
            if missing:
                raise ValueError(f"{name} has no code for {','.join(missing)}")
            if extra:
                raise ValueError(f"{name} has code for {','.join(extra)} too, which is not wanted: does the build read PYTORCH_ROCM_ARCH?")
    if not some:
        raise ValueError(f"{os.path.basename(wheel)} has no GPU code")


def version(wheel):
    """The version that the wheel's metadata says."""
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                return email.message_from_bytes(z.read(name))["Version"]
    raise ValueError(f"{os.path.basename(wheel)} has no metadata")


_IMPORT = """
import importlib, site, sys
site.addsitedir(sys.argv[1])
sys.path.insert(0, sys.argv[1])
print(importlib.import_module(sys.argv[2]).__file__)
"""


def check_import(installed, module):
    """ValueError where the module does not come from the folder that the wheel is in."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"MODULE is {module!r}, which is no name of a Python module")
    # -I: what this folder or PYTHONPATH has does not count.
    found = subprocess.run([sys.executable, "-I", "-c", _IMPORT, installed, module],
                           cwd=installed, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    if not os.path.realpath(found).startswith(os.path.realpath(installed) + os.sep):
        raise ValueError(f"{module} comes from {found}, not from the wheel")


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def pack(archive, wheel, build):
    """Writes the archive; build gains the wheel's name and SHA-256."""
    build = dict(build, wheel=os.path.basename(wheel), sha256=sha256(wheel))
    notes = os.path.join(os.path.dirname(wheel), "build.json")
    with open(notes, "w", encoding="utf-8") as f:
        json.dump(build, f, indent=2)
    with tarfile.open(archive, "w") as t:
        t.add(wheel, build["wheel"])
        t.add(notes, "build.json")
    return build


def unpack(folder, into):
    """Unpacks the one archive of a folder: the path of the wheel, and build.json."""
    archives = [n for n in os.listdir(folder) if n.endswith(".tar")]
    if len(archives) != 1:
        raise ValueError(f"{folder} has {len(archives)} archives of wheels, want 1")
    with tarfile.open(os.path.join(folder, archives[0])) as t:
        with t.extractfile("build.json") as f:
            build = json.load(f)
        name = build["wheel"]
        if os.path.basename(name) != name or not name.endswith(".whl"):
            raise ValueError(f"build.json names {name!r}, which is no wheel")
        wheel = os.path.join(into, name)
        with t.extractfile(name) as f, open(wheel, "wb") as out:
            out.write(f.read())
    if sha256(wheel) != build["sha256"]:
        raise ValueError(f"{name} is not the wheel that was built: its SHA-256 is {sha256(wheel)}, build.json has {build['sha256']}")
    return wheel, build
