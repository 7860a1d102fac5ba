"""Runs a program as a user would: a process of its own, in a given folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_SECONDS = 240.0


def run_program(path: Path, *, folder: Path) -> str:
    """What the program printed; fails with all it said if it did not end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(path)],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{path.name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
