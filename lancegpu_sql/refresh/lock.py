"""One refresh of a column at a time on this host: the second waits for the first, then does what is left.

The lock is an advisory one of the kernel's on a file beside the table, so a holder that dies, however it dies, frees it.
Between hosts it holds where their shared disk passes such locks on (NFS 4, CephFS). Where it does not, two refreshes of a
column may run at once: each publishes only over files that are as it saw them, so no row is published twice, and the later
one finds that nothing is left to do. Rows that both were at are then computed twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.errors import Cancelled, StorageError

_RETRY_SECONDS = 0.05


def lock_name(table: str, column: str) -> str:
    """Return what stands for a column in names of files: those of tables and columns never become such."""
    return hashlib.blake2b(f"{table}\0{column}".encode(), digest_size=16).hexdigest()


@contextmanager
def column_lock(
    folder: Path,
    table: str,
    column: str,
    *,
    cancelled: threading.Event,
    blocked: Callable[[], None],
    what: str | None = None,
) -> Iterator[None]:
    """Hold the right to refresh `column` of `table`; call `blocked` once if another one, or a compaction, holds it.

    `what` names what is done with that right, where it is no refresh of a column.
    """
    descriptor = _opened(folder, lock_name(table, column), f"{table}.{column}")
    try:
        _acquire(descriptor, what or f"refresh of {table}.{column}", cancelled, blocked)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def lock_if_free(folder: Path, name: str) -> Iterator[bool]:
    """Hold the right to refresh the column for which `lock_name` stands, unless a refresh does; yields whether it is held here."""
    descriptor = _opened(folder, name, "a column")
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _opened(folder: Path, name: str, what: str) -> int:
    try:
        make_folder(folder)
        return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StorageError(f"could not lock {what} in {folder}: {exc.strerror}", path=str(folder)) from exc


def _acquire(descriptor: int, what: str, cancelled: threading.Event, blocked: Callable[[], None]) -> None:
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not told:
                blocked()
                told = True
            if cancelled.wait(_RETRY_SECONDS):
                raise Cancelled(f"cancelled while another {what} was running") from None
