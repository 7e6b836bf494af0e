"""Lays out in release/ what a GitHub release of tag/ has: the wheel of wheels/.

The wheel has passed gpu-verify and linux-verify, so what is released is what was tested. Fails
where the tag is another commit than the wheel's, or another version.
"""
import os
import sys

import rocm_git
import rocm_wheel


def write(name, text):
    with open(os.path.join("release", name), "w", encoding="utf-8") as f:
        f.write(text + "\n")


def main():
    tag, commit = rocm_git.ref("tag"), rocm_git.commit("tag")
    if not tag.startswith("v"):
        raise ValueError(f"{tag!r} is no tag v<version>")
    os.makedirs("release/files", exist_ok=True)
    wheel, build = rocm_wheel.unpack("wheels", "release/files")
    if build["commit"] != commit:
        raise ValueError(f"{tag} is {commit}, and the newest wheel that passed gpu-verify and linux-verify is of {build['commit']}: "
                         "where the tag is newer, run this job again when its commit has passed; where it is older, "
                         "pin the resource wheels to its wheel first")
    version = rocm_wheel.version(wheel)
    # What follows the plus, such as rocm6.3, says how it was built.
    if version.split("+")[0] != tag[1:]:
        raise ValueError(f"{tag} would release version {version}; correct the project's version and tag that commit")
    write("name", tag)
    write("tag", tag)
    write("commit", commit)
    write("body.md", f"`{build['wheel']}`\n\n"
          f"- architectures: {', '.join(build['architectures'])}\n"
          f"- commit: {commit}\n- Python: {build['python']}\n- SHA-256: `{build['sha256']}`")
    with open(wheel + ".sha256", "w", encoding="utf-8") as f:
        f.write(f"{build['sha256']}  {build['wheel']}\n")
    print(f"{tag}: {build['wheel']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
