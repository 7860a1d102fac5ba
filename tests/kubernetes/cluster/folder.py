"""The folder of one run of the cluster; a run that was killed could not remove its own, so the next one does."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "lancegpu-cluster-"
# Locked as long as its run lives, by whatever name other processes know that.
SIGN_OF_LIFE = "alive"


@contextmanager
def own_folder() -> Iterator[Path]:
    """A fresh folder, gone at the end."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with (folder / SIGN_OF_LIFE).open("w") as sign:
            fcntl.flock(sign, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(where: Path) -> None:
    for sign in where.glob(f"{PREFIX}*/{SIGN_OF_LIFE}"):
        try:
            with sign.open() as found:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(sign.parent, ignore_errors=True)
        except OSError:
            continue  # it lives, or another one sweeps
