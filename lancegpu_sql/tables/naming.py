"""Which names tables and columns may have, and which columns nobody but this package sees."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from lancegpu_sql.errors import AlreadyExists, InvalidName

HIDDEN_PREFIX = "_lancegpu_"
PROOF_PREFIX = "_lancegpu_proof_"
PRIVATE_FOLDER = ".lancegpu"
"""Beside the tables: catalog, checkpoints, logs, locks. LanceDB takes only folders named ``*.lance`` for tables."""

ROW_ID = "_rowid"
"""What Lance calls a row's number, which is read like a column."""

ROW_ADDRESS = "_rowaddr"
"""What Lance calls the place where a row stands: its fragment, and its offset in that."""

# LanceDB's rule; "." and ".." would leave the folder. A leading dot is ours to refuse: such a table would be a hidden
# folder. File systems hold 255 bytes, of which ".lance" and the mark of a table being replaced need some.
_TABLE_NAME = re.compile(r"[A-Za-z0-9_\-.]+")
_LONGEST_TABLE_NAME = 200
# How many names stand in an error.
_NAMES_TOLD = 20

# What Lance's scanner calls its own columns. A column of that name can be made, and makes the table unreadable.
_LANCE_COLUMNS = frozenset(
    (
        ROW_ID,
        ROW_ADDRESS,
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
    )
)


def is_hidden(column: str) -> bool:
    """Tell whether a column is kept from users."""
    return column.startswith(HIDDEN_PREFIX)


def is_blob(field: pa.Field) -> bool:
    """Tell whether Lance stores a column's bytes apart from it, and hands out descriptions unless asked for the bytes."""
    extension = str(getattr(field.type, "extension_name", ""))
    return extension.startswith("lance.blob") or bool((field.metadata or {}).get(b"lance-encoding:blob") == b"true")


def is_table_name(name: str) -> bool:
    """Tell whether LanceDB would open a table of this name."""
    return _TABLE_NAME.fullmatch(name) is not None and name not in (".", "..") and len(name) <= _LONGEST_TABLE_NAME


def told_missing(name: str, known: Iterable[str]) -> str:
    """Say that there is no such table, and which there are."""
    names = sorted(known)
    more = ", …" if len(names) > _NAMES_TOLD else ""
    there = f"The tables are {', '.join(names[:_NAMES_TOLD])}{more}." if names else "There are none."
    return f"There is no table {name!r}. {there}"


def check_table_name(name: str) -> None:
    """Raise InvalidName unless a table may be created under this name."""
    if not is_table_name(name) or name.startswith("."):
        raise InvalidName(
            f"{name!r} cannot name a table: use 1 to {_LONGEST_TABLE_NAME} of the characters A-Z, a-z, 0-9, '_', '-' "
            "and '.', not starting with '.'.",
            name=name,
        )


def check_column_names(names: Iterable[str]) -> None:
    """Raise InvalidName unless these may be a table's columns."""
    seen: set[str] = set()
    for name in names:
        if is_hidden(name):
            raise InvalidName(
                f"Column {name!r}: names that start with {HIDDEN_PREFIX!r} are kept for this package.", name=name
            )
        if name in _LANCE_COLUMNS:
            raise InvalidName(f"Column {name!r}: Lance keeps this name for itself.", name=name)
        if not name:
            raise InvalidName("A column needs a name of at least one character.", name=name)
        if not _is_whole(name):
            raise InvalidName(
                f"{name!r} cannot name a column: it holds half a character (a lone surrogate).", name=name
            )
        if name == "*" or any(character in name for character in ".`\0"):
            raise InvalidName(
                f"{name!r} cannot name a column: Lance reads '.', '`' and '*' as its own signs. Rename the column.",
                name=name,
            )
        if name in seen:
            raise InvalidName(f"Two columns are called {name!r}. Rename one.", name=name)
        seen.add(name)


def _is_whole(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_columns(fields: Iterable[pa.Field]) -> None:
    """Raise InvalidName unless these may be a table's columns, down to the fields of structs."""
    columns = list(fields)
    check_column_names(field.name for field in columns)
    alike = alike_names(columns)
    if alike is not None:
        raise InvalidName(
            f"Two columns are called {alike[0]!r} and {alike[1]!r}, which SQL does not tell apart. Rename one.",
            name=alike[1],
        )


def alike_names(fields: Iterable[pa.Field]) -> tuple[str, str] | None:
    """Return two names beside each other, at any depth of structs, that are apart by the case of A to Z only.

    SQL takes both for the first.
    """
    siblings = list(fields)
    seen: dict[bytes, str] = {}
    for field in siblings:
        first = seen.setdefault(field.name.encode().lower(), field.name)
        if first != field.name:
            return first, field.name
    for field in siblings:
        inner = alike_names(_children(field.type))
        if inner is not None:
            return f"{field.name}.{inner[0]}", f"{field.name}.{inner[1]}"
    return None


def _children(kind: pa.DataType) -> list[pa.Field]:
    if not pa.types.is_nested(kind):
        return []
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _children(kind.value_type)
    return [kind.field(at) for at in range(kind.num_fields)]


def check_free(table: str, present: Iterable[str], names: Iterable[str]) -> None:
    """Raise AlreadyExists where one of these columns would join another of its name.

    SQL does not tell upper from lower case: two columns apart only by it could not both be queried.
    """
    taken = {column.casefold(): column for column in present}
    for name in names:
        if name.casefold() in taken:
            raise AlreadyExists(
                f"Table {table!r} already has a column {taken[name.casefold()]!r}.", table=table, column=name
            )
