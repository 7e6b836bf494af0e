"""Runs the commands of a project in its checkout source/, on Linux and on Windows."""
import os
import subprocess


def commands(text, windows=os.name == "nt"):
    """Returns the command lines of a command, for subprocess: one shell that ends at the first
    failure.

    cmd of Windows goes on after a failure, so there each line is a separate command. It is a
    string, because subprocess would escape the quotes of a list, and cmd reads no escapes. cmd
    removes the outer quotes.
    """
    if not windows:
        return [["sh", "-ec", text]] if text.strip() else []
    return [f'cmd.exe /d /s /c "{line.strip()}"' for line in text.splitlines() if line.strip()]


def run(name, env):
    """Runs the command in the variable name, which may be empty. It raises ValueError with
    the exit status if the command fails."""
    for command in commands(os.environ[name]):
        status = subprocess.run(command, cwd="source", env=env).returncode
        if status != 0:
            raise ValueError(f"{name} exits with {status}")
