"""Which versions of tables are in use on this host, so that upkeep does not remove them under who reads or writes there.

Lance finds out what happened since the version that a write began with from the versions in between: once they are removed it
may take two writes of the same rows for one, and the table is broken. So a version in use keeps all later ones, too.

A user holds a shared lock of the kernel's on a file named after the table and the version; one that dies, however it dies,
lets go of it. Where there is no private folder of a database beside the table, as in an object store, nothing is known: there
the age of versions is what protects those who use them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from lancegpu_sql.errors import VersionNotFound

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

_PRIVATE = ".lancegpu"
_FOLDER = "reading"
_REMOVING = "removing"
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

    def __init__(self, snapshot: Snapshot, version: int | None = None) -> None:
        self._descriptor: int | None = None
        version = snapshot.version if version is None else version
        self._path = _folder(snapshot.uri) / f"{_mark(snapshot.name)}-{version}"
        with _known(snapshot) as known:
            if not known:
                return
            self._descriptor = _locked(self._path)
            if not _is_there(snapshot.uri, version):
                self.close()
                raise VersionNotFound(
                    f"Version {version} of table {snapshot.name!r} was cleaned up at this very moment. Try again.",
                    table=snapshot.name,
                    version=version,
                )

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            _remove_if_unused(descriptor, self._path)
        finally:
            os.close(descriptor)


def is_known(snapshot: Snapshot) -> bool:
    """Tell whether those who use versions of the table are known."""
    return _folder(snapshot.uri).parent.is_dir()


def versions_used(snapshot: Snapshot) -> set[int]:
    """Return the versions of a table that are in use on this host."""
    found = set()
    for path in _folder(snapshot.uri).glob(f"{_mark(snapshot.name)}-*[0-9]"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # whoever used it has let go of it
        try:
            if not _remove_if_unused(descriptor, path):
                found.add(int(path.name.rpartition("-")[2]))
        finally:
            os.close(descriptor)
    return found


@contextmanager
def removing(snapshot: Snapshot) -> Iterator[None]:
    """Keep everybody from beginning to use a version: who is found to be in use now is who is."""
    with _locked_file(snapshot, fcntl.LOCK_EX):
        yield


@contextmanager
def latest_held(snapshot: Snapshot) -> Iterator[None]:
    """Hold on to the version that is the latest now, and to all later ones: for a write that begins here."""
    with _locked_file(snapshot, fcntl.LOCK_SH):
        held = Reading(snapshot, int(snapshot.dataset.latest_version)) if _exists(snapshot) else None
    try:
        yield
    finally:
        if held is not None:
            held.close()


def writes(function: Callable[Concatenate[Snapshot, P], T]) -> Callable[Concatenate[Snapshot, P], T]:
    """Let a function that writes to a table hold on to the versions that Lance may need for it."""

    def held(snapshot: Snapshot, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with latest_held(snapshot):
            return function(snapshot, *args, **kwargs)

    return update_wrapper(held, function)


@contextmanager
def _known(snapshot: Snapshot) -> Iterator[bool]:
    """Keep versions from being removed meanwhile; yield whether those who use them are known."""
    with _locked_file(snapshot, fcntl.LOCK_SH) as descriptor:
        yield descriptor is not None


@contextmanager
def _locked_file(snapshot: Snapshot, how: int) -> Iterator[int | None]:
    folder = _folder(snapshot.uri)
    descriptor: int | None = None
    # A folder that is not there, cannot be written to or takes no locks is no reason not to go on.
    with suppress(OSError):
        if folder.parent.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = _opened(folder / f"{_mark(snapshot.name)}-{_REMOVING}", how)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _opened(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _locked(path: Path) -> int:
    while True:
        descriptor = _opened(path, fcntl.LOCK_SH)
        # It may have been removed by someone who found it unused, between the two.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _remove_if_unused(descriptor: int, path: Path) -> bool:
    """Remove the file of a version that nobody uses, except by this descriptor; tell whether that is so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    with suppress(OSError):
        if os.fstat(descriptor).st_nlink:
            path.unlink()
    return True


def _is_there(uri: str, version: int) -> bool:
    names = (f"{_NEWEST - version:020d}.manifest", f"{version}.manifest")
    return any((Path(uri) / "_versions" / name).exists() for name in names)


def _exists(snapshot: Snapshot) -> bool:
    return (Path(snapshot.uri) / "_versions").is_dir()


def _folder(uri: str) -> Path:
    return Path(uri).parent / _PRIVATE / _FOLDER


def _mark(table: str) -> str:
    """What stands for a table in names of files."""
    return hashlib.blake2b(table.encode(), digest_size=12).hexdigest()
