"""Where a database is: a local folder, or a prefix in an object store; and what each says of the database's identity."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lancegpu_sql.catalog.connection import is_postgresql
from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.catalog.read_only import CatalogCopy, copy_catalog
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import arguments
from lancegpu_sql.database.catalog_place import CATALOG_FILE, catalog_place, keep_catalog_place, kept_at
from lancegpu_sql.database.identity import ID_FILE, database_id
from lancegpu_sql.database.scratch import Scratch
from lancegpu_sql.database.storage_options import resolved
from lancegpu_sql.errors import InvalidInput, StorageError
from lancegpu_sql.settings import Settings, masked
from lancegpu_sql.tables.naming import PRIVATE_FOLDER
from lancegpu_sql.tables.store import TableStore

if TYPE_CHECKING:
    from lancegpu_sql.tables.database_note import DatabaseNote

OBJECT_STORE = "s3://"
_OTHER_STORES = ("gs://", "az://", "abfss://")


class Location(Protocol):
    """`private` is a folder of this host: what belongs to the database beside its tables and its catalog."""

    private: Path
    identity: str
    scratch: Scratch | None
    catalog_kind: type[Catalog]

    def catalog_place(self, named: str | None) -> str | Path:
        """Return where the catalog is, as the setting says or by itself."""
        ...

    def kept_at(self) -> str | None:
        """Return where in PostgreSQL the catalog was opened last."""
        ...

    def keep_catalog_place(self, place: str) -> None:
        """Note where the catalog was opened."""
        ...

    def tables(self) -> TableStore:
        """Return the tables."""
        ...


class FolderLocation:
    """A local folder, which is made."""

    scratch: Scratch | None = None
    catalog_kind: type[Catalog] = Catalog

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.private = folder / PRIVATE_FOLDER
        _make_private(self.private)
        self.identity = database_id(self.private)

    def catalog_place(self, named: str | None) -> str | Path:
        """Return where the catalog is."""
        return catalog_place(self.private, named)

    def kept_at(self) -> str | None:
        """Return where in PostgreSQL the catalog was opened last."""
        return kept_at(self.private)

    def keep_catalog_place(self, place: str) -> None:
        """Note where the catalog was opened."""
        keep_catalog_place(self.private, place)

    def tables(self) -> TableStore:
        """Return the tables."""
        return TableStore(self._folder)


class ReadOnlyLocation:
    """A local folder that cannot be written: its catalog is copied, and what a query needs beside it is kept apart."""

    def __init__(self, folder: Path, named: str | None) -> None:
        self._folder = folder
        self._own = folder / PRIVATE_FOLDER
        self.scratch: Scratch | None = Scratch()
        self.private = self.scratch.folder
        self.catalog_kind: type[Catalog] = Catalog if named else CatalogCopy
        try:
            self._place = catalog_place(self._own, named)
            if not named:
                copy_catalog(Path(self._place), self.private / CATALOG_FILE)
                self._place = self.private / CATALOG_FILE
            known = self._own / ID_FILE
            self.identity = database_id(self._own if known.exists() else self.private)
        except BaseException:
            self.scratch.remove()
            raise

    def catalog_place(self, named: str | None) -> str | Path:  # noqa: ARG002
        """Return where the catalog is, or its copy."""
        return self._place

    def kept_at(self) -> str | None:
        """Return where in PostgreSQL the catalog was opened last."""
        return kept_at(self._own)

    def keep_catalog_place(self, place: str) -> None:
        """Note nothing."""

    def tables(self) -> TableStore:
        """Return the tables."""
        return TableStore(self._folder)


@dataclass
class ObjectLocation:
    """A prefix in an object store, which has a note of the database; logs, locks and drafts are in this host's state folder."""

    uri: str
    options: dict[str, str]
    note: DatabaseNote
    private: Path
    identity: str
    scratch: Scratch | None = None
    catalog_kind: type[Catalog] = Catalog

    def catalog_place(self, named: str | None) -> str | Path:
        """Return where the catalog is."""
        assert named is not None  # looked at before
        return named

    def kept_at(self) -> str | None:
        """Return where in PostgreSQL the catalog was opened last."""
        return self.note.kept_at()

    def keep_catalog_place(self, place: str) -> None:
        """Note where the catalog was opened."""
        self.note.keep(place)

    def tables(self) -> TableStore:
        """Return the tables."""
        return TableStore(self.uri, self.options)


def locate(uri: str | os.PathLike[str], settings: Settings) -> Location:
    """Return where a database is, and see to it that it can be there.

    Raises
    ------
    InvalidInput
        The uri suits neither a folder nor an object store, or names an object store and no catalog in PostgreSQL.
    StorageError
        The folder, or the object store, refuses.
    """
    text = arguments.path(uri, "the place of a database")
    if text.startswith(OBJECT_STORE):
        return _in_object_store(text, settings)
    if text.startswith(_OTHER_STORES):
        raise InvalidInput(
            f"{text!r} is in an object store of another kind: this release knows {OBJECT_STORE} only", uri=text
        )
    if "://" in text:
        raise InvalidInput(f"{text!r} is neither a local folder nor a URL such as s3://bucket/name", uri=text)
    if not text:
        raise InvalidInput("connect() takes the folder of a database, not an empty string", uri=text)
    if settings.storage_options:
        raise InvalidInput(
            f"{text!r} is a local folder, which takes no storage_options; a database in an object store is named as "
            "s3://bucket/name",
            uri=text,
            setting="storage_options",
        )
    try:
        folder = Path(text).expanduser().absolute()
    except RuntimeError as exc:
        raise InvalidInput(f"{text!r} names the home of a user whom this machine does not know", uri=text) from exc
    return ReadOnlyLocation(folder, settings.catalog) if _can_only_be_read(folder) else FolderLocation(folder)


def _can_only_be_read(folder: Path) -> bool:
    try:
        private = folder / PRIVATE_FOLDER
        present = private if private.is_dir() else folder
        return present.is_dir() and os.access(present, os.R_OK | os.X_OK) and not os.access(present, os.W_OK)
    except OSError:  # a name that no disk takes: whoever is to make it is told
        return False


def is_database(uri: str, settings: Settings) -> bool:
    """Tell whether there is a database already, in an object store; of what cannot be one `locate` says why.

    Raises
    ------
    InvalidInput, StorageError
    """
    if not (uri.startswith(OBJECT_STORE) and is_postgresql(settings.catalog or "")):
        return True
    from lancegpu_sql.tables.database_note import DatabaseNote

    at, options = _checked(uri), resolved(settings.storage_options or {})
    return DatabaseNote(at, options).exists() or bool(TableStore(at, options).names())


def holds_database(folder: str | os.PathLike[str]) -> bool:
    """Tell whether a local folder holds tables or a catalog; also of one that cannot be looked at, of which `locate` says why."""
    try:
        path = Path(folder).expanduser()
        return (path / PRIVATE_FOLDER).is_dir() or (path.is_dir() and any(path.glob("*.lance")))
    except (OSError, RuntimeError, ValueError):
        return True


def _in_object_store(text: str, settings: Settings) -> ObjectLocation:
    if not is_postgresql(settings.catalog or ""):
        raise InvalidInput(
            f"{text!r} is in an object store, which can hold no catalog: that must be in PostgreSQL, as in "
            f"connect({text!r}, catalog='postgresql://user@host/name') or the variable LANCEGPU_CATALOG",
            uri=text,
        )
    uri = _checked(text)
    # Lance is loaded where an object store is used, or a table.
    from lancegpu_sql.tables.database_note import DatabaseNote

    options = resolved(settings.storage_options or {})
    note = DatabaseNote(uri, options)
    identity = note.database_id()
    private = (settings.state_folder or _state_folder()) / "databases" / identity
    _make_private(private)
    return ObjectLocation(uri, options, note, private, identity)


def _checked(text: str) -> str:
    """Return the URL as it is written everywhere."""
    bucket, _, prefix = text.removeprefix(OBJECT_STORE).partition("/")
    uri = f"{OBJECT_STORE}{bucket}/{prefix.strip('/')}".rstrip("/")
    if not bucket or "//" in prefix or any(mark in uri for mark in "?#@ "):
        raise InvalidInput(
            f"{masked(text)!r} is no place in an object store; write s3://bucket/name, and how it is reached in storage_options",
            uri=masked(text),
        )
    return uri


def _state_folder() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".local" / "state") / "lancegpu"
    except RuntimeError as exc:
        raise InvalidInput(
            "this user has no home folder: name one for what this host keeps of a database in an object store, by "
            "state_folder= or the variable LANCEGPU_STATE_FOLDER",
            setting="state_folder",
        ) from exc


def _make_private(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)  # the database itself is shared as the user's umask says
        make_folder(folder)
        folder.chmod(0o700)
    except OSError as exc:
        raise StorageError(
            f"the database's folder {folder} cannot be used: {exc.strerror}. It must be a folder that you may write to, or, where "
            "queries are all that is asked of it, one that is there and may be read",
            path=str(folder),
        ) from exc
