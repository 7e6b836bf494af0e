#!/usr/bin/env python3
"""Stands in for the resource types git, s3, registry-image, github-release and that of pull
requests: the scripts check, in and out of each, which one the source tells.

Git's is the real program. What else is outside is a server of the tests, OUTSIDE; an
image is this container's own root."""
import fnmatch
import glob
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import urllib.request

OUTSIDE = "http://10.99.0.1:8099"


def git(*argv, cwd=None):
    return subprocess.run(["git", *argv], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def http(url, data=None, key=""):
    request = urllib.request.Request(url, data, {"Authorization": key}, method="PUT" if data is not None else "GET")
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def git_check(source, version):
    with tempfile.TemporaryDirectory() as tmp:
        git("clone", "-q", "--bare", source["uri"], tmp)
        if "tag_filter" in source:
            tags = fnmatch.filter(git("tag", "--sort=creatordate", cwd=tmp), source["tag_filter"])
            return [{"ref": t, "commit": git("rev-list", "-1", t, cwd=tmp)[0]} for t in tags]
        refs = git("rev-list", "--reverse", source["branch"], "--", *source.get("paths", []), cwd=tmp)
    if version and version["ref"] in refs:
        refs = refs[refs.index(version["ref"]):]
    return [{"ref": r} for r in (refs if version else refs[-1:])]


def git_in(source, version, folder):
    git("clone", "-q", source["uri"], folder)
    git("checkout", "-q", version.get("commit", version["ref"]), cwd=folder)
    with open(os.path.join(folder, ".git", "ref"), "w", encoding="utf-8") as f:
        f.write(version["ref"] + "\n")


def bucket(source):
    return f"{source['endpoint']}/{source['bucket']}/"


def s3_check(source, version):
    names = http(bucket(source), key=source["access_key_id"]).decode().split()
    found = [(int(m[1]), m[0]) for m in (re.fullmatch(source["regexp"], n) for n in names) if m]
    versions = [{"path": path} for _, path in sorted(found)] or [{"path": p} for p in [source.get("initial_path")] if p]
    if version in versions:
        return versions[versions.index(version):]
    return versions if version else versions[-1:]


def s3_in(source, version, folder):
    path = version["path"]
    data = source["initial_content_text"].encode() if path == source.get("initial_path") else http(bucket(source) + path, key=source["access_key_id"])
    with open(os.path.join(folder, posixpath.basename(path)), "wb") as f:
        f.write(data)


def s3_out(source, params, folder):
    [file] = glob.glob(os.path.join(folder, params["file"]))
    path = posixpath.join(posixpath.dirname(source["regexp"]), os.path.basename(file))
    with open(file, "rb") as f:
        http(bucket(source) + path, f.read(), source["secret_access_key"])
    return {"path": path}


def image_check(source, version):
    return [{"digest": f"{source['repository']}:{source['tag']}"}]


def image_in(source, version, folder):
    http(f"{OUTSIDE}/registry/{source.get('registry_mirror', {}).get('host', 'docker.io')}/{source['repository']}@{version['digest']}")
    rootfs = os.path.join(folder, "rootfs")
    os.mkdir(rootfs)
    subprocess.run(["bash", "-ec", 'set -o pipefail; tar -C / --one-file-system --warning=no-xdev --exclude=./tmp -cf - . | tar -C "$1" -xf -', "bash", rootfs], check=True)
    for name in ("tmp", "proc", "sys", "dev"):
        os.makedirs(os.path.join(rootfs, name), exist_ok=True)
    os.chmod(os.path.join(rootfs, "tmp"), 0o1777)
    with open(os.path.join(folder, "metadata.json"), "w", encoding="utf-8") as f:
        json.dump({"env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"], "user": "root"}, f)


def release_out(source, params, folder):
    def text(name):
        with open(os.path.join(folder, params[name]), encoding="utf-8") as f:
            return f.read().strip()
    at = f"{OUTSIDE}/releases/{source['owner']}/{source['repository']}/{text('tag')}/"
    http(at + "commit", text("commitish").encode(), source["access_token"])
    http(at + "body.md", text("body").encode(), source["access_token"])
    for pattern in params["globs"]:
        for file in glob.glob(os.path.join(folder, pattern)):
            with open(file, "rb") as f:
                http(at + "files/" + os.path.basename(file), f.read(), source["access_token"])
    return {"tag": text("tag")}


def pull_check(source, version):
    lines = http(f"{OUTSIDE}/git/pulls").decode().split("\n")
    found = [dict(zip(("pr", "commit"), line.split())) for line in lines if line]
    if version in found:
        return found[found.index(version):]
    return found if version else found[-1:]


def pull_in(source, version, folder):
    at = f"{OUTSIDE}/git/{source['repository'].split('/')[1]}.git"
    git("init", "-q", "-b", source["base_branch"], cwd=folder)
    git("remote", "add", "origin", at.replace("://", f"://x-oauth-basic:{source['access_token']}@"), cwd=folder)
    git("fetch", "-q", at, source["base_branch"], f"pull/{version['pr']}/head:refs/pull", cwd=folder)
    git("reset", "-q", "--hard", "FETCH_HEAD", cwd=folder)
    git("-c", "user.name=t", "-c", "user.email=t@t", "merge", "-q", "--no-stat", version["commit"], cwd=folder)
    os.makedirs(os.path.join(folder, ".git/resource"))
    with open(os.path.join(folder, ".git/resource/version.json"), "w", encoding="utf-8") as f:
        json.dump(version, f)


def pull_out(source, params, folder):
    with open(os.path.join(folder, params["path"], ".git/resource/version.json"), encoding="utf-8") as f:
        version = json.load(f)
    at = f"{OUTSIDE}/releases/pulls/{version['pr']}/"
    if "status" in params:
        http(at + f"{version['commit']}-{params['context']}", params["status"].encode(), source["access_token"])
    if "comment_file" in params:
        with open(os.path.join(folder, params["comment_file"]), "rb") as f:
            http(at + "comment.md", f.read(), source["access_token"])
    return version


KINDS = {
    "base_branch": (pull_check, pull_in, pull_out),
    "uri": (git_check, git_in, None),
    "bucket": (s3_check, s3_in, s3_out),
    "tag": (image_check, image_in, None),
    "start": (lambda source, version: [{"time": "2026-01-02T02:00:00Z"}], lambda source, version, folder: None, None),
    "owner": (lambda source, version: [], lambda source, version, folder: None, release_out),
}


def main():
    asked = json.load(sys.stdin)
    source = asked["source"]
    check, get, put = next(functions for key, functions in KINDS.items() if key in source)
    script = os.path.basename(sys.argv[0])
    if script == "check":
        answer = check(source, asked.get("version"))
    elif script == "in":
        get(source, asked["version"], sys.argv[1])
        answer = {"version": asked["version"]}
    else:
        answer = {"version": put(source, asked["params"], sys.argv[1])}
    json.dump(answer, sys.stdout)


main()
