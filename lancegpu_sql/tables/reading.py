"""Which versions of tables are being read on this host, so that upkeep does not remove one under its reader.

A reader holds a shared lock of the kernel's on a file named after the table and the version; one that dies, however it dies,
lets go of it. Where there is no private folder of a database beside the table, as in an object store, nothing is held: there
the age of versions is what protects readers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

_PRIVATE = ".lancegpu"
_FOLDER = "reading"


class Reading:
    """Holds on to a version for as long as somebody refers to this."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._path = _folder(snapshot.uri) / f"{_mark(snapshot.name)}-{snapshot.version}"
        self._descriptor: int | None = None
        # A folder that cannot be written to is no reason not to read.
        with suppress(OSError):
            self._descriptor = self._locked()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            _remove_if_unread(descriptor, self._path)
        finally:
            os.close(descriptor)

    def _locked(self) -> int:
        if self._path.parent.parent.is_dir():
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                # It may have been removed by someone who found it unread, between the two.
                if os.fstat(descriptor).st_nlink:
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def versions_read(snapshot: Snapshot) -> set[int]:
    """Return the versions of a table that are being read on this host."""
    found = set()
    for path in _folder(snapshot.uri).glob(f"{_mark(snapshot.name)}-*"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # whoever read it has let go of it
        try:
            if not _remove_if_unread(descriptor, path):
                found.add(int(path.name.rpartition("-")[2]))
        finally:
            os.close(descriptor)
    return found


def _remove_if_unread(descriptor: int, path: Path) -> bool:
    """Remove the file of a version that nobody reads, except by this descriptor; tell whether that is so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    with suppress(OSError):
        if os.fstat(descriptor).st_nlink:
            path.unlink()
    return True


def _folder(uri: str) -> Path:
    return Path(uri).parent / _PRIVATE / _FOLDER


def _mark(table: str) -> str:
    """What stands for a table in names of files."""
    return hashlib.blake2b(table.encode(), digest_size=12).hexdigest()
