"""Installs what the project in source/ needs: INSTALL_COMMAND."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tasks", "rocm"))
import rocm_arches  # noqa: E402
import rocm_project  # noqa: E402

if __name__ == "__main__":
    try:
        env = dict(os.environ, **rocm_arches.environment(rocm_arches.parse(os.environ["ARCHITECTURES"])))
        rocm_project.run("INSTALL_COMMAND", env)
    except (OSError, ValueError) as e:
        sys.exit(f"FAILED: {e}")
