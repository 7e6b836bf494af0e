"""Runs a script of this folder or of pipelines/tasks/rocm as a step, and explains its failure in
an annotation. The step's output "python" is the version of Python, such as 3.12.

    step.py hip_check.py
"""
import os
import re
import subprocess
import sys

from annotations import annotate, append

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, os.pardir, "tasks", "rocm")

# The first pattern that a line of the output has is the cause: pattern, title, fix.
CAUSES = [(re.compile(pattern, re.IGNORECASE), title, fix) for pattern, title, fix in (
    (r"hipcc: (command )?not found|'hipcc' is not recognized|No such file or directory: '?[^ ]*hipcc|Failed to find ROCm root",
     "The HIP compiler is missing",
     "Install ROCm with its compiler for the runner's account. If it is in another folder, set the variable ROCM_PATH "
     "of the repository, or the input rocm-extra-bin-dirs or windows-extra-bin-dirs."),
    (r"FAILED: torch sees no GPU",
     "torch sees no GPU",
     "On Linux add the runner's user to the groups render and video, and start the runner again. On Windows check that "
     "the Device Manager shows the GPU, and that AMD Software: PRO Edition installed ROCm. Then restart the machine."),
    (r"FAILED: torch .* was built without HIP|No module named 'torch'",
     "torch is not for ROCm",
     "Install torch for ROCm for the runner's Python, or in install-command with --index-url https://download.pytorch.org/whl/rocm6.3."),
    (r"does not compute: ",
     "torch has no code for this GPU",
     "Install a torch that lists the GPU's architecture, or set HSA_OVERRIDE_GFX_VERSION in the runner's file .env."),
    (r"FAILED: GPU \d+ is gfx",
     "The runner has another GPU",
     "Set the inputs gfx and architectures to the runner's GPU, or give the runner with the right GPU the labels."),
    (r"(cannot find|unable to find|could not find).*(rocblaslt|hipblaslt)|lib(roc|hip)blaslt\.so[^ ]*: cannot open",
     "rocBLASLt is missing",
     "Install hipblaslt and rocblas with their headers, or set the input rocm-extra-lib-dirs to the folder of the libraries."),
    (r"rocminfo: (command )?not found|No such file or directory: '?[^ ]*rocminfo|(list of|HIP) targets? (list )?is empty",
     "The list of HIP targets is empty",
     "Install rocminfo for the runner's account, or set the input arches-variable to the project's name for the list."),
    (r"(AssertionError|assert ).*block_sparse",
     "Block-sparse attention is disabled",
     "Check that the sources for HIP are in the project, and that rocblaslt and hipblaslt are in rocm-extra-lib-dirs."),
    (r"FAILED: PROFILE_COMMAND exits with",
     "An example failed",
     "See status and error of the examples in the profile, which is in the job's artifact. If model weights are missing, "
     "keep them on the runner."),
    (r"FAILED: .* is worse than",
     "The profile is worse than the baseline",
     "If that is meant, commit the new profile of the artifact as the file in the input baseline."),
    (r"FAILED: UNIT_COMMAND exits with", "A test failed", "See the output of this step."),
    (r"FAILED: WHEEL_COMMAND exits with", "A test with the wheel failed", "The wheel may lack a file that the checkout has."),
    (r"FAILED: INSTALL_COMMAND exits with", "The dependencies do not install", "See pip's output in this step."),
    (r"FAILED: .*(has no code for|has code for|has no GPU code)",
     "The wheel has other GPU code",
     "Let the project's build read PYTORCH_ROCM_ARCH, or set the input arches-variable to its own variable."),
    (r"FAILED: .*which is not in the wheel",
     "A DLL is missing in the wheel",
     "Set the input windows-extra-bin-dirs to the DLL's folder, or add its name to allowed-dlls."),
)]


def script(name):
    own = os.path.join(HERE, name)
    return own if os.path.exists(own) else os.path.join(os.path.abspath(SCRIPTS), name)


def main():
    append("GITHUB_OUTPUT", f"python={sys.version_info.major}.{sys.version_info.minor}")
    env = dict(os.environ, PYTHONUNBUFFERED="1")  # lines in their order, because stdout is a pipe
    child = subprocess.Popen([sys.executable, os.path.join(SCRIPTS, "rocm_env.py"), script(sys.argv[1])], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found, reason = None, ""
    for line in child.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        text = line.decode("utf-8", "replace").strip()
        found = found or next((c for c in CAUSES if c[0].search(text)), None)
        if text.startswith("FAILED: "):
            reason = text.removeprefix("FAILED: ")
    status = child.wait()
    if status != 0:
        _, title, fix = found or (None, f"{sys.argv[1]} failed", "See the output of this step.")
        annotate("error", title, f"{reason or f'exit status {status}'}\n{fix}")
    sys.exit(1 if status else 0)


if __name__ == "__main__":
    main()
