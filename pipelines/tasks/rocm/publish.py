"""Uploads the wheel of wheels/ to a package index with twine, if tag/ is its commit.

The wheel has passed gpu-verify and linux-verify. The index must then offer the file under
the SHA-256 of build.json, so what people install is what ran on a GPU. A file that the
index already has is not uploaded again; another file under that name fails.
Only twine's process gets the token. This one starts again without it in its environment:
the programs that pip installs, which run as its children, can read /proc/PPID/environ.
"""
import ctypes
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import rocm_wheel
import prepare_release

TRIES = 12  # looks at the index after an upload, which may lag behind
PAUSE = 10  # seconds between them


class _Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def offered(simple, project, name, opener):
    """Returns the SHA-256 under which the index offers a file, "" if it offers none.

    simple is the index for pip: a page for each project, with links that end in the hash.
    """
    page = f"{simple.rstrip('/')}/{re.sub(r'[-_.]+', '-', project).lower()}/"
    try:
        with opener.open(page, timeout=60) as answer:
            text = answer.read(32 << 20).decode("utf-8", "replace")
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return ""
        raise ValueError(f"{page} answers {e.code}") from None
    links = _Links()
    try:
        links.feed(text)
    except AssertionError:  # html.parser's, at a wrong declaration
        raise ValueError(f"{page} is not HTML, as pip reads it") from None
    for link in links.found:
        path, _, fragment = link.partition("#")
        if urllib.parse.unquote(path.split("?")[0]).rsplit("/", 1)[-1] == name:
            key, _, value = fragment.partition("=")
            if key != "sha256" or not re.fullmatch("[0-9a-fA-F]{64}", value):
                raise ValueError(f"{page} has no SHA-256 of {name}: the index does not let anyone check what it offers")
            return value.lower()
    return ""


def opener_of(simple, user, token):
    """Returns what opens the index, with the token if the index needs one to read."""
    if not token:
        return urllib.request.build_opener()
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, simple, user, token)
    return urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))


def take_token():
    """Returns the token. It starts this program again with the token in a pipe, not in the environment."""
    fd = os.environ.pop("INDEX_TOKEN_FD", "")
    if fd:
        with os.fdopen(int(fd)) as pipe:
            return pipe.read()
    token = os.environ.pop("INDEX_TOKEN")
    if not token:
        raise ValueError("index-token is empty: put it into the credential manager, and take it out of the variables")
    reader, writer = os.pipe()
    os.write(writer, token.encode())
    os.close(writer)
    os.set_inheritable(reader, True)
    os.execve(sys.executable, [sys.executable, os.path.abspath(__file__)], {**os.environ, "INDEX_TOKEN_FD": str(reader)})


def hide_memory():
    """Lets no process without CAP_SYS_PTRACE read this one's memory, which has the token."""
    pr_set_dumpable = 4
    if ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0) != 0:
        raise OSError("cannot hide the memory of this process: prctl fails")


def upload(wheel, url, user, token, tmp):
    """Uploads by twine. TWINE is pip's requirement for it; empty: the image has twine."""
    env = dict(os.environ)
    wanted = os.environ["TWINE"].strip()
    if wanted:
        place = os.path.join(tmp, "twine")
        subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet",
                        "--target", place, *wanted.split()], env=env, check=True)
        env["PYTHONPATH"] = place
    env.update(TWINE_USERNAME=user, TWINE_PASSWORD=token, TWINE_NON_INTERACTIVE="1")
    argv = [sys.executable, "-m", "twine", "upload", "--disable-progress-bar", "--repository-url", url, wheel]
    if subprocess.run(argv, env=env).returncode != 0:
        raise ValueError(f"twine can't upload {os.path.basename(wheel)} to {url}; its reason is above")


def main():
    url, simple = os.environ["INDEX_URL"], os.environ["INDEX_SIMPLE_URL"]
    if not url:
        print("index-url is empty: nothing is published")
        return
    for name, value in (("index-url", url), ("index-simple-url", simple)):
        host = urllib.parse.urlsplit(value)
        if host.scheme not in ("http", "https") or not host.hostname or host.username:
            raise ValueError(f"{name} is no URL without a password, such as https://pypi.example/simple")
        if host.scheme == "http" and host.hostname not in ("localhost", "127.0.0.1"):
            raise ValueError(f"{name} begins with http: the token would go there unencrypted")
    user, token = os.environ["INDEX_USER"], take_token()
    hide_memory()
    with tempfile.TemporaryDirectory() as tmp:
        wheel, build = rocm_wheel.unpack("wheels", tmp)
        prepare_release.check_tag(wheel, build)
        project = build["wheel"].split("-")[0]
        opener = opener_of(simple, user, token)
        have = offered(simple, project, build["wheel"], opener)
        if not have:
            upload(wheel, url, user, token, tmp)
        for _ in range(TRIES):
            if have:
                break
            have = offered(simple, project, build["wheel"], opener)
            if not have:
                time.sleep(PAUSE)
        if not have:
            raise ValueError(f"the index does not offer {build['wheel']} after the upload")
        if have != build["sha256"]:
            raise ValueError(f"the index has another {build['wheel']}: its SHA-256 is {have}, "
                             f"the tested wheel's {build['sha256']}; raise the version")
        print(f"published: {build['wheel']} {build['sha256']}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as e:
        sys.exit(f"FAILED: {e}")
