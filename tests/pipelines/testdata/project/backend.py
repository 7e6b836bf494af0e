"""Builds the project's wheel as pip asks for it, with GPU code for the architectures
of PYTORCH_ROCM_ARCH in the form that clang gives it. FAKE_ARCHS, FAKE_SECOND and
FAKE_FORM make it another build: for others, one library for others, and compressed,
none or broken code. FAKE_PE is a file that the libraries begin with."""
import os
import struct
import zipfile

NAME, VERSION = "project", "1.2.3+rocm"


def bundle(archs):
    ids = ["host-x86_64-unknown-linux-gnu-"] + [f"hipv4-amdgcn-amd-amdhsa--{a}" for a in archs]
    out = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for i in ids:
        out += struct.pack("<QQQ", 4096, 0, len(i)) + i.encode()
    return out


def library(archs):
    form = os.environ.get("FAKE_FORM", "")
    # A program that reads bundles has their magic in it and is none.
    data = b"\x7fELF"
    if "FAKE_PE" in os.environ:
        with open(os.environ["FAKE_PE"], "rb") as f:
            data = f.read()
    data += b"\0" * 60 + b"__CLANG_OFFLOAD_BUNDLE__ is the magic" + b"\0" * 16
    if form == "compressed":
        return data + b"CCOB" + struct.pack("<HHII", 2, 1, 100, 100)
    if form == "none":
        return data
    return data + bundle(archs) + b"\0" * 100 + bundle(archs[:1])


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    archs = os.environ.get("FAKE_ARCHS", os.environ["PYTORCH_ROCM_ARCH"]).split(";")
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    info = f"{NAME}-{VERSION}.dist-info"
    with open("project/__init__.py", encoding="utf-8") as f:
        code = f.read()
    files = {
        "project/__init__.py": code,
        "project/_C.so": library(archs),
        "project/_D.so": library(os.environ.get("FAKE_SECOND", ";".join(archs)).split(";")),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{n},,\n" for n in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as z:
        for n, data in files.items():
            z.writestr(n, data)
        z.writestr(f"{info}/RECORD", record)
    return name
