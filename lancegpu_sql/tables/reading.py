"""Which versions of tables are in use on this host, so that upkeep does not remove them under who reads or writes there.

Lance finds out what happened since the version that a write began with from the versions in between: once they are removed it
may take two writes of the same rows for one, and the table is broken. So a version in use keeps all later ones, too.

For each table there is one empty file, whose bytes stand for its versions: a user holds a shared lock of the kernel's on one
of them, and lets go of it when it dies, however it dies. Byte 0 is held by whoever removes versions. Where there is no private
folder of a database beside the table, as in an object store, nothing is known: there the age of versions is what protects
those who use them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from lancegpu_sql.errors import VersionNotFound
from lancegpu_sql.tables.naming import PRIVATE_FOLDER

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

_FOLDER = "reading"
_REMOVING = 0
_FLOCK = "hhqqi4x"  # struct flock of Linux where files have 64-bit offsets: type, whence, start, length, process
_TRIES = 10  # to hold on to the latest version: the next one is there by then, or upkeep does nothing else
_NEWEST = 2**64 - 1  # Lance names a version's manifest by its distance from here

P = ParamSpec("P")
T = TypeVar("T")


class Reading:
    """Holds on to a version, and all later ones, for as long as somebody refers to this.

    Raises
    ------
    VersionNotFound
        It was removed between its being opened and this.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._descriptor = _opened(snapshot)
        if self._descriptor is None:
            return
        with _not_while_removing(self._descriptor):
            _lock(self._descriptor, fcntl.F_RDLCK, snapshot.version)
            there = _is_there(snapshot.uri, snapshot.version)
        if not there:
            self.close()
            raise VersionNotFound(
                f"Version {snapshot.version} of table {snapshot.name!r} was cleaned up at this very moment. Try again.",
                table=snapshot.name,
                version=snapshot.version,
            )

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def latest_held(snapshot: Snapshot) -> Iterator[None]:
    """Hold on to the version that is the latest now, and to all later ones: for a write that begins here."""
    descriptor = _opened(snapshot)
    try:
        if descriptor is not None and (Path(snapshot.uri) / "_versions").is_dir():
            with _not_while_removing(descriptor):
                _lock(descriptor, fcntl.F_RDLCK, int(snapshot.dataset.latest_version))
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def at_latest(snapshot: Snapshot, begin: Callable[[Snapshot], T]) -> T:
    """Begin to use a table's latest version: a later one than this where upkeep removes it before it is held."""
    for _ in range(_TRIES):
        try:
            return begin(snapshot)
        except VersionNotFound as exc:
            if exc.facts.get("version") != snapshot.version:  # of what else is read
                raise
        snapshot = snapshot.latest()
    return begin(snapshot)


def writes(function: Callable[Concatenate[Snapshot, P], T]) -> Callable[Concatenate[Snapshot, P], T]:
    """Let a function that writes to a table hold on to the versions that Lance may need for it."""

    def held(snapshot: Snapshot, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with latest_held(snapshot):
            return function(snapshot, *args, **kwargs)

    return update_wrapper(held, function)


@contextmanager
def removing(snapshot: Snapshot) -> Iterator[None]:
    """Keep everybody from beginning to use a version: who is found to be in use now is who is."""
    descriptor = _opened(snapshot)
    try:
        if descriptor is not None:
            _lock(descriptor, fcntl.F_WRLCK, _REMOVING)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def least_used(snapshot: Snapshot) -> int | None:
    """Return the least version of a table that is in use on this host; None where none is."""
    descriptor = _opened(snapshot)
    if descriptor is None:
        return None
    found: int | None = None
    try:
        # The kernel tells of one lock in the way, whichever it comes to first.
        while found != 1:
            length = 0 if found is None else found - 1
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 1, length, 0)
            kind, _, start, _, _ = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
            if kind == fcntl.F_UNLCK:
                return found
            found = start
        return found
    finally:
        os.close(descriptor)


def is_known(snapshot: Snapshot) -> bool:
    """Tell whether those of this host who use versions of the table are known."""
    descriptor = _opened(snapshot)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


@contextmanager
def _not_while_removing(descriptor: int) -> Iterator[None]:
    _lock(descriptor, fcntl.F_RDLCK, _REMOVING)
    try:
        yield
    finally:
        _lock(descriptor, fcntl.F_UNLCK, _REMOVING)


def _opened(snapshot: Snapshot) -> int | None:
    """The table's file; None where there is none, none can be made, or the file system has no such locks."""
    private = Path(snapshot.uri).parent / PRIVATE_FOLDER
    path = private / _FOLDER / hashlib.blake2b(snapshot.name.encode(), digest_size=12).hexdigest()
    how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor: int | None = None
    # A folder that cannot be written to is no reason not to read.
    with suppress(OSError):
        try:
            descriptor = os.open(path, how, 0o600)
        except FileNotFoundError:
            if not private.is_dir():
                return None
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, how, 0o600)
    if descriptor is not None and not _has_locks(descriptor):
        os.close(descriptor)
        return None
    return descriptor


def _has_locks(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 1, 1, 0))
    except (OSError, AttributeError):  # some network file systems; other systems than Linux
        return False
    return True


def _lock(descriptor: int, kind: int, byte: int) -> None:
    """Lock one byte, or let go of it; of this descriptor, not of the process, so that its threads see each other."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0))


def _is_there(uri: str, version: int) -> bool:
    names = (f"{_NEWEST - version:020d}.manifest", f"{version}.manifest")
    return any((Path(uri) / "_versions" / name).exists() for name in names)
