"""Reads which DLLs a PE file (.dll, .pyd, .exe) needs, on any system.

The layout is Microsoft's "PE Format". Only what is needed is read: the import directory,
and that of delayed imports. A file that is cut or lies about its layout is a ValueError.
"""
import struct

_MAX = 4096  # DLLs of a file, and bytes of a name
_IMPORT, _DELAYED = 1, 13  # numbers of the data directories


def _unpack(form, data, at):
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise ValueError(f"it ends before byte {at + struct.calcsize(form)}")
    return struct.unpack_from(form, data, at)


class _Image:
    """Finds the place in the file of an address in memory."""

    def __init__(self, data):
        self.data = data
        if data[:2] != b"MZ":
            raise ValueError("it is no PE file")
        (header,) = _unpack("<I", data, 0x3C)
        (signature,) = _unpack("<4s", data, header)
        if signature != b"PE\0\0":
            raise ValueError("it is no PE file")
        _, sections, _, _, _, size, _ = _unpack("<HHIIIHH", data, header + 4)
        optional = header + 24
        (magic,) = _unpack("<H", data, optional)
        if magic not in (0x10B, 0x20B):
            raise ValueError(f"its optional header has the magic {magic:#x}")
        wide = magic == 0x20B
        (self.base,) = _unpack("<Q" if wide else "<I", data, optional + (24 if wide else 28))
        count_at = optional + (108 if wide else 92)
        (count,) = _unpack("<I", data, count_at)
        self.directories = [_unpack("<II", data, count_at + 4 + 8 * i) for i in range(min(count, 16))]
        # Of each section: its size and address in memory, its size and place in the file.
        self.sections = [_unpack("<IIII", data, optional + size + 40 * i + 8) for i in range(sections)]

    def place(self, address):
        for size, begin, raw, at in self.sections:
            if begin <= address < begin + max(size, raw):
                if address - begin >= raw:
                    break
                return at + address - begin
        raise ValueError(f"no section has the address {address:#x}")

    def name(self, address):
        at = self.place(address)
        end = self.data.find(b"\0", at, at + _MAX)
        if end <= at:
            raise ValueError(f"there is no name at byte {at}")
        try:
            return self.data[at:end].decode("ascii")
        except UnicodeDecodeError:
            raise ValueError(f"the name at byte {at} is not ASCII") from None

    def entries(self, number, form, step):
        """The entries of a directory up to the one of zeros."""
        if number >= len(self.directories) or self.directories[number][0] == 0:
            return
        at = self.place(self.directories[number][0])
        for i in range(_MAX):
            entry = _unpack(form, self.data, at + i * step)
            if not any(entry):
                return
            yield entry
        raise ValueError(f"it names more than {_MAX} DLLs")


def imports(data):
    """Returns the names of the DLLs that a PE file needs, each once, as it has them."""
    image, found = _Image(data), []
    for entry in image.entries(_IMPORT, "<IIIII", 20):
        found.append(image.name(entry[3]))
    for entry in image.entries(_DELAYED, "<IIIIIIII", 32):
        # Of old linkers it is an address with the base of the image.
        found.append(image.name(entry[1] if entry[0] & 1 else entry[1] - image.base))
    return list(dict.fromkeys(found))
