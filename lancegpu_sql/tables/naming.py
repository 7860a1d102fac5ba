"""Which names tables and columns may have, and which columns nobody but this package sees."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lancegpu_sql.errors import AlreadyExists, InvalidName

HIDDEN_PREFIX = "_lancegpu_"
PROOF_PREFIX = "_lancegpu_proof_"

# LanceDB's rule; "." and ".." would leave the folder. A leading dot is ours to refuse: such a table would be a hidden
# folder. File systems hold 255 bytes, of which ".lance" and the mark of a table being replaced need some.
_TABLE_NAME = re.compile(r"[A-Za-z0-9_\-.]+")
_LONGEST_TABLE_NAME = 200

# What Lance's scanner calls its own columns. A column of that name can be made, and makes the table unreadable.
_LANCE_COLUMNS = frozenset(
    (
        "_rowid",
        "_rowaddr",
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


def is_table_name(name: str) -> bool:
    """Tell whether LanceDB would open a table of this name."""
    return _TABLE_NAME.fullmatch(name) is not None and name not in (".", "..") and len(name) <= _LONGEST_TABLE_NAME


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
        if not name or name == "*" or any(character in name for character in ".`\0"):
            raise InvalidName(
                f"{name!r} cannot name a column: Lance reads '.', '`' and '*' as its own signs. Rename the column.",
                name=name,
            )
        if name in seen:
            raise InvalidName(f"Two columns are called {name!r}. Rename one.", name=name)
        seen.add(name)


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
