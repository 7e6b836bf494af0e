"""Lays out in release/ what a GitHub release of tag/ has: the wheel of wheels/, the one for
Linux in linux-wheels/ if that is there, and their commit's profile and comparison of reports/.

The wheel has passed gpu-verify and linux-verify, so what is released is what was tested. Fails
where the tag is another commit than the wheel's or the profile's, or another version.
"""
import os
import sys
import tarfile

import rocm_git
import rocm_wheel


def write(name, text):
    with open(os.path.join("release", name), "w", encoding="utf-8") as f:
        f.write(text + "\n")


def report(tag, commit):
    """Unpacks the one report as files named by the tag: the comparison's text."""
    archives = [n for n in os.listdir("reports") if n.endswith(".tar")]
    if len(archives) != 1:
        raise ValueError(f"reports has {len(archives)} archives of a profile, want 1")
    if not archives[0].endswith(f"-{commit[:12]}.tar"):
        raise ValueError(f"{tag} is {commit}, and {archives[0]} is of another commit: pin the resource reports to that of the wheel, or none")
    found = {}
    with tarfile.open(os.path.join("reports", archives[0])) as t:
        for name in ("profile.json", "report.md"):
            with t.extractfile(name) as f, open(f"release/files/{tag}-{name}", "wb") as out:
                found[name] = f.read()
                out.write(found[name])
    return found["report.md"].decode()


def check_tag(wheel, build):
    """Returns tag and commit of tag/; ValueError unless the wheel is of that commit and version."""
    tag, commit = rocm_git.ref("tag"), rocm_git.commit("tag")
    if not tag.startswith("v") or "/" in tag:
        raise ValueError(f"{tag!r} is no tag v<version>")
    if build["commit"] != commit:
        raise ValueError(f"{tag} is {commit}, and the newest wheel that passed gpu-verify and linux-verify is of {build['commit']}: "
                         "where the tag is newer, run this job again when its commit has passed; where it is older, "
                         "pin the resource wheels to its wheel first")
    version = rocm_wheel.version(wheel)
    # What follows the plus, such as rocm6.3, says how it was built.
    if version.split("+")[0] != tag[1:]:
        raise ValueError(f"{tag} would release version {version}; correct the project's version and tag that commit")
    return tag, commit


def main():
    os.makedirs("release/files", exist_ok=True)
    wheel, build = rocm_wheel.unpack("wheels", "release/files")
    tag, commit = check_tag(wheel, build)
    wheels = [(wheel, build)]
    if os.path.isdir("linux-wheels"):
        wheels.append(rocm_wheel.unpack("linux-wheels", "release/files"))
        check_tag(*wheels[1])
    comparison = report(tag, commit)
    if len(comparison) > 100000:  # of the 125,000 characters that GitHub takes
        comparison = f"The comparison is too long to stand here: see `{tag}-report.md`."
    write("name", tag)
    write("tag", tag)
    write("commit", commit)
    write("body.md", "\n\n".join(
        f"`{one['wheel']}`\n\n"
        f"- architectures: {', '.join(one['architectures'])}\n"
        f"- commit: {commit}\n- Python: {one['python']}\n- SHA-256: `{one['sha256']}`" for _, one in wheels) + f"\n\n{comparison.rstrip()}")
    for path, one in wheels:
        with open(path + ".sha256", "w", encoding="utf-8") as f:
            f.write(f"{one['sha256']}  {one['wheel']}\n")
        print(f"{tag}: {one['wheel']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError, tarfile.TarError) as e:
        sys.exit(f"FAILED: {e}")
