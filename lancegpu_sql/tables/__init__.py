"""Lance datasets: open, append, what a version holds, write a column, publish it. Only importer of lance.

A Snapshot is one version of a table and never changes under its reader; writes go to the latest version and return a
new one. What a value means, whether it is current and what computes it, is not known here beyond the declaration that
stands in a column's metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancegpu_sql.tables.column_file import ColumnFile as ColumnFile
    from lancegpu_sql.tables.column_file import ColumnFileWriter as ColumnFileWriter
    from lancegpu_sql.tables.fragments import DataFileRef as DataFileRef
    from lancegpu_sql.tables.fragments import Fragment as Fragment
    from lancegpu_sql.tables.publishing import Publication as Publication
    from lancegpu_sql.tables.snapshot import Snapshot as Snapshot
    from lancegpu_sql.tables.store import TableStore as TableStore

# Lance takes 0.2 s to import; whoever only needs a name of this room should not pay for it.
_HOMES = {
    "ColumnFile": "column_file",
    "ColumnFileWriter": "column_file",
    "DataFileRef": "fragments",
    "Fragment": "fragments",
    "Publication": "publishing",
    "Snapshot": "snapshot",
    "TableStore": "store",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
