"""Tables in an object store, which renames nothing: the manifests of Lance alone say what is a table.

A new table is written where it will be, and is there with its first manifest, which Lance puts only where none is: of two
that create one, one is refused. One that is dropped loses its manifests oldest first: until the last is gone, it is whole.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import PurePosixPath

from lancegpu_sql.errors import AlreadyExists, CommitConflict, InvalidData, TableNotFound
from lancegpu_sql.tables.engine import lance_errors
from lancegpu_sql.tables.files import StorageOptions, at_once, object_session
from lancegpu_sql.tables.naming import is_table_name
from lancegpu_sql.tables.object_access import ObjectAccess
from lancegpu_sql.tables.places import SUFFIX, CreateMode, Exchange, Write
from lancegpu_sql.tables.snapshot import Snapshot

_VERSIONS = "_versions"
# Lance names a manifest by what is left from its version to this number, so that the latest comes first in a listing.
_LAST_VERSION = 2**64 - 1
_OLD_NAMES_BELOW = 2**63


class ObjectPlace:
    """The tables below one URL.

    Parameters
    ----------
    uri
        Such as ``s3://bucket/shop``.
    options
        How it is reached.
    """

    def __init__(self, uri: str, options: StorageOptions | None) -> None:
        self.uri = uri.rstrip("/")
        self.access: ObjectAccess | None = ObjectAccess(options)
        with lance_errors(""):
            self._session = object_session(self.uri, options)

    def location(self, name: str) -> str:
        """Return where a table of this name lies, or would lie."""
        return f"{self.uri}/{name}{SUFFIX}"

    def names(self) -> list[str]:
        """Return the names of all tables."""
        with lance_errors(""):
            found = [PurePosixPath(one).name for one in self._session.list_with_delimiter().common_prefixes]
        names = [one.removesuffix(SUFFIX) for one in found if one.endswith(SUFFIX)]
        names = [name for name in names if is_table_name(name)]
        return [name for name, there in zip(names, at_once(self.has, names), strict=True) if there]

    def has(self, name: str) -> bool:
        """Tell whether there is such a table."""
        with lance_errors(name):
            return bool(self._session.list_with_delimiter(f"{name}{SUFFIX}/{_VERSIONS}").objects)

    def stamp(self, name: str) -> str | None:
        """Return the latest version and the digest of its manifest: one made anew comes to the same versions."""
        try:
            latest = self._open(name)
        except TableNotFound:
            return None
        digest = blake2b(latest.dataset._ds.serialized_manifest(), digest_size=8)  # noqa: SLF001  # no other way to it
        return f"{latest.version}-{digest.hexdigest()}"

    def bring_back(self, name: str) -> bool:  # noqa: ARG002
        """Return False: nothing is ever without its name."""
        return False

    def create(self, name: str, mode: CreateMode, write: Write) -> Snapshot:
        """Write a new table; a crash before its manifest leaves files that no table names."""
        if mode == "overwrite" and self.has(name):
            raise InvalidData(
                f"Table {name!r} was made without stable row ids, and an object store cannot put another in its place in one "
                f"step. Drop it first (DROP TABLE {name}), then create it.",
                table=name,
            )
        try:
            return write(self.location(name))
        except AlreadyExists:
            if mode == "exist_ok":
                return self._open(name)
            if mode == "create":
                raise AlreadyExists(f"Table {name!r} was created by someone else meanwhile.", table=name) from None
            raise CommitConflict(
                f"Table {name!r} was created by someone else meanwhile, and no row was added. Try again.", table=name
            ) from None

    def replace(self, old: Snapshot, write: Write, exchange: Exchange | None = None) -> Snapshot:  # noqa: ARG002
        """Refuse: two tables cannot change places in one step."""
        raise InvalidData(
            f"Table {old.name!r} cannot be converted where it is: an object store cannot put another in its place in one step. "
            "Copy its rows into another table (CREATE TABLE … AS SELECT …), and drop this one.",
            table=old.name,
        )

    def drop(self, name: str) -> None:
        """Remove a table; a crash leaves it, without some older versions, or files that no table names."""
        with lance_errors(name):
            # What is made anew under the name meanwhile has files of its own, which must stay.
            found = self._session.list(f"{name}{SUFFIX}")
            versions = sorted((one for one in found if PurePosixPath(one).parent.name == _VERSIONS), key=_version)
            if not versions:
                raise TableNotFound(f"There is no table {name!r}.", table=name)
            at_once(self._session.delete_file, versions[:-1])
            self._session.delete_file(versions[-1])
            at_once(self._session.delete_file, [one for one in found if one not in set(versions)])

    def _open(self, name: str) -> Snapshot:
        return Snapshot.open(name, self.location(name), access=self.access)


def _version(manifest: str) -> int:
    """The version that a manifest is of; 0 for what is none."""
    number = PurePosixPath(manifest).stem
    if not number.isdecimal():
        return 0
    return int(number) if int(number) < _OLD_NAMES_BELOW else _LAST_VERSION - int(number)
