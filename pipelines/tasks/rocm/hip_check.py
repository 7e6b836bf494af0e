"""Whether PyTorch computes on the AMD GPUs of this task.

Prints the HIP runtime, each GPU's name and architecture, and the architectures
that torch was built for. Fails where torch has no HIP, sees no GPU, or names no
architecture, where a GPU does not add two vectors, and where a GPU's architecture
is not in ARCHITECTURES: tests on such a GPU say nothing about that build.
"""
import os
import sys

import rocm_arches


def fail(text):
    sys.exit(f"FAILED: {text}")


def architecture(properties):
    """What torch says the GPU is, else what the worker says, where it says one."""
    name = getattr(properties, "gcnArchName", "")
    if name:
        return rocm_arches.normalise(name)
    from_worker = os.environ.get("HIP_ARCHES", "")
    if not from_worker:
        fail("this torch is too old to name the GPU's architecture, and the worker sets no HIP_ARCHES")
    listed = rocm_arches.parse(from_worker)
    if len(listed) > 1:
        fail(f"this torch is too old to name the GPU's architecture, and the worker has several: {','.join(listed)}")
    return listed[0]


def computes(torch, device):
    try:
        x = torch.ones(1024, device=device)
        total = (x + x).sum().item()
    except RuntimeError as e:
        fail(f"{device} does not compute: {e}")
    if total != 2048:
        fail(f"{device} computes wrongly: 1024 sums of 1+1 are {total}")


def check(wanted):
    """Ends the program where a GPU of this task is not one of these, or does not compute."""
    try:
        import torch
    except ImportError as e:
        fail(f"the image has no PyTorch ({e}); take one of ROCm, such as rocm/pytorch")
    hip = getattr(torch.version, "hip", None)
    if not hip:
        fail(f"torch {torch.__version__} was built without HIP; take an image of ROCm, such as rocm/pytorch")
    print(f"HIP runtime: {hip} (torch {torch.__version__})")
    if not torch.cuda.is_available() or torch.cuda.device_count() < 1:
        fail("torch sees no GPU; has the step the tags gpu and compute-runtime=rocm, and does verify-gpu pass on the worker?")
    built = rocm_arches.unique(torch.cuda.get_arch_list()) if hasattr(torch.cuda, "get_arch_list") else None
    if built is None:
        print("torch is too old to list the architectures that it was built for")
    elif not built:
        fail("torch lists no architecture that it was built for")
    else:
        print(f"torch is built for: {' '.join(built)}")
    for i in range(torch.cuda.device_count()):
        arch = architecture(torch.cuda.get_device_properties(i))
        print(f"GPU {i}: {torch.cuda.get_device_name(i)}, {arch}")
        computes(torch, f"cuda:{i}")
        if arch not in wanted:
            fail(f"GPU {i} is {arch}, and the architectures to build for are {','.join(wanted)}: add it, or ask for a worker by the tag gfx=<architecture>")


if __name__ == "__main__":
    try:
        check(rocm_arches.parse(os.environ["ARCHITECTURES"]))
    except ValueError as e:
        fail(e)
