"""Where a database's tables lie: what `TableStore` asks of a local folder and of an object store alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from lancegpu_sql.tables.object_access import ObjectAccess
from lancegpu_sql.tables.snapshot import Snapshot

SUFFIX = ".lance"

CreateMode = Literal["create", "overwrite", "exist_ok", "append"]

Write = Callable[[str], Snapshot]
"""Writes a new table where it is told to, and returns it."""

Exchange = Callable[[Path, Path], None]
"""Lets two folders swap names."""


class Place(Protocol):
    """Tables side by side, each known by its name; `uri` is where, `access` how an object store is reached."""

    uri: str
    access: ObjectAccess | None

    def location(self, name: str) -> str:
        """Return where a table of this name lies, or would lie, as Lance takes it."""
        ...

    def names(self) -> list[str]:
        """Return the names of all tables."""
        ...

    def has(self, name: str) -> bool:
        """Tell whether there is such a table. A creation that was killed leaves files without versions: no table."""
        ...

    def stamp(self, name: str) -> str | None:
        """Return what is another text after each commit; None where there is no such table."""
        ...

    def bring_back(self, name: str) -> bool:
        """Give a table its name back that was left without it by a process that was killed; tell whether it did."""
        ...

    def create(self, name: str, mode: CreateMode, write: Write) -> Snapshot:
        """Write a new table and give it its name when it is whole; what `mode` says is done where one is there by then."""
        ...

    def replace(self, old: Snapshot, write: Write, exchange: Exchange | None = None) -> Snapshot:
        """Put another table in the place of one, unless that was changed meanwhile."""
        ...

    def drop(self, name: str) -> None:
        """Remove a table; raises `TableNotFound`."""
        ...
