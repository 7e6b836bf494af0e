"""Puts the DLLs that a wheel for Windows needs into it, and checks that none is missing.

Python looks for the DLLs of an extension in the extension's own folder, so they go there.
Nothing is bundled that Windows, Python or ALLOWED_DLLS (patterns with commas, such as
torch's own) brings.
"""
import base64
import csv
import fnmatch
import hashlib
import io
import os
import posixpath
import zipfile

import pe_imports

# What every Windows 10 and 11 has, and what Python itself brings. Names are small letters.
_WINDOWS = ("api-ms-win-*", "ext-ms-*", "kernel32.dll", "kernelbase.dll", "ntdll.dll", "user32.dll", "gdi32.dll",
            "advapi32.dll", "shell32.dll", "ole32.dll", "oleaut32.dll", "ws2_32.dll", "bcrypt.dll", "crypt32.dll",
            "rpcrt4.dll", "shlwapi.dll", "psapi.dll", "dbghelp.dll", "setupapi.dll", "cfgmgr32.dll", "version.dll",
            "winmm.dll", "iphlpapi.dll", "userenv.dll", "secur32.dll", "ucrtbase.dll", "msvcrt.dll", "synchronization.dll", "dxgi.dll", "d3d12.dll", "opengl32.dll",
            "python3.dll", "python3??.dll", "vcruntime140.dll", "vcruntime140_1.dll")


def is_pe(data):
    return data[:2] == b"MZ"


def allowed(name, patterns):
    return any(fnmatch.fnmatchcase(name.lower(), p.strip().lower()) for p in (*_WINDOWS, *patterns) if p.strip())


def missing(files, patterns):
    """Returns (file, DLL) of each DLL that no folder of its file has, in the order of files."""
    found = []
    for name, data in files.items():
        if not is_pe(data):
            continue
        folder = posixpath.dirname(name)
        beside = {posixpath.basename(n).lower() for n in files if posixpath.dirname(n) == folder}
        try:
            needed = pe_imports.imports(data)
        except ValueError as e:
            raise ValueError(f"cannot read the imports of {name}: {e}") from None
        found += [(name, dll) for dll in needed if dll.lower() not in beside and not allowed(dll, patterns)]
    return found


def search(folders):
    """Returns the DLLs of folders by their names in small letters; the first folder wins."""
    found = {}
    for folder in folders:
        if folder and os.path.isdir(folder):
            for entry in os.scandir(folder):
                if entry.name.lower().endswith(".dll") and entry.is_file():
                    found.setdefault(entry.name.lower(), entry.path)
    return found


def complete(files, patterns, available):
    """Adds to files what they need from available, and what that needs. Returns the added names."""
    added = []
    while True:
        wanted = [(f, d) for f, d in missing(files, patterns) if d.lower() in available]
        if not wanted:
            return added
        for file, dll in wanted:
            path = available[dll.lower()]
            name = posixpath.join(posixpath.dirname(file), os.path.basename(path))
            if name not in files:
                with open(path, "rb") as f:
                    files[name] = f.read()
                added.append(name)


def record(files, info):
    """Returns the text of RECORD for the files of a wheel."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    return out.getvalue().encode()


def read(wheel):
    with zipfile.ZipFile(wheel) as z:
        return {n: z.read(n) for n in z.namelist() if not n.endswith("/")}


def check(wheel, patterns):
    """Raises ValueError if a file of the wheel needs a DLL that nothing brings."""
    lacking = missing(read(wheel), patterns)
    if lacking:
        raise ValueError("; ".join(f"{file} needs {dll}, which is not in the wheel" for file, dll in lacking)
                         + ": add its folder to windows-extra-bin-dirs, or its name to allowed-dlls if another package has it")


def bundle(wheel, patterns, folders):
    """Puts the missing DLLs into the wheel, prints them, and checks the wheel."""
    files = read(wheel)
    added = complete(files, patterns, search(folders))
    for name in added:
        print(f"bundled: {name}")
    if added:
        info = next((posixpath.dirname(n) for n in files if n.endswith(".dist-info/RECORD")), None)
        if info is None:
            raise ValueError(f"{os.path.basename(wheel)} has no RECORD")
        del files[f"{info}/RECORD"]
        files[f"{info}/RECORD"] = record(files, info)
        with zipfile.ZipFile(wheel + ".new", "w", zipfile.ZIP_DEFLATED) as z:
            for name, data in files.items():
                # A ZipInfo has a fixed time, and would otherwise choose to store.
                z.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        os.replace(wheel + ".new", wheel)
    check(wheel, patterns)
    return added
