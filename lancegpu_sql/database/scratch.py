"""A folder for what a process needs beside a database that it cannot write to; it goes with the database's handle."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Scratch:
    """A folder of its owner's alone, removed when it is told to be, or with the process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lancegpu-read-only-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
