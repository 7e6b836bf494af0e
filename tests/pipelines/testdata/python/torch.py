"""Stands in for PyTorch. FAKE_TORCH says what it is and sees: JSON, or after an @ the
file that has it, with hip, built (the architectures it was built for, null: too old to
tell) and gpus, each with name, arch (null: too old to tell), error and sum."""
import json
import os
from types import SimpleNamespace



def _text(told):
    if not told.startswith("@"):
        return told
    with open(told[1:], encoding="utf-8") as f:
        return f.read()


_told = json.loads(_text(os.environ["FAKE_TORCH"]))
__version__ = _told.get("version", "2.6.0")
version = SimpleNamespace(hip=_told.get("hip"))
_gpus = _told.get("gpus", [])


def _properties(i):
    p = SimpleNamespace(name=_gpus[i]["name"])
    if _gpus[i].get("arch") is not None:
        p.gcnArchName = _gpus[i]["arch"]
    return p


cuda = SimpleNamespace(
    synchronize=lambda: None,
    reset_peak_memory_stats=lambda: None,
    max_memory_allocated=lambda: 64_000_000,
    is_available=lambda: bool(_gpus),
    device_count=lambda: len(_gpus),
    get_device_name=lambda i: _gpus[i]["name"],
    get_device_properties=_properties,
)
if _told.get("built") is not None:
    cuda.get_arch_list = lambda: _told["built"]


class _Vector:
    def __init__(self, gpu, n, each):
        self.gpu, self.n, self.each = gpu, n, each

    def __add__(self, other):
        return _Vector(self.gpu, self.n, self.each + other.each)

    def __matmul__(self, other):
        return self

    def sum(self):
        return SimpleNamespace(item=lambda: self.gpu.get("sum", self.n * self.each))


def ones(*shape, device):
    gpu = _gpus[int(device.removeprefix("cuda").removeprefix(":") or 0)]
    if gpu.get("error"):
        raise RuntimeError(gpu["error"])
    return _Vector(gpu, shape[0], 1)
