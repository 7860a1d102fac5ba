"""Which computed columns of a table a query may read instead of calling their Function."""

from __future__ import annotations

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import ColumnNotFound
from lancegpu_sql.refresh.current import unproven
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import StoredColumn
from lancegpu_sql.tables.snapshot import Snapshot


def stored_columns(snapshot: Snapshot, catalog: Catalog) -> tuple[StoredColumn, ...]:
    """Return them, fresh or not: whether they are is told by the files alone, so that nothing is read for it.

    A column of a class with values of its own is none, for a call in a query has no such values; nor is one that shows a
    field of a struct.
    """
    found = (_stored(snapshot, catalog, column) for column in snapshot.computed)
    return tuple(stored for stored in found if stored is not None)


def _stored(snapshot: Snapshot, catalog: Catalog, column: ComputedColumn) -> StoredColumn | None:
    if column.bound or column.output_field is not None:
        return None
    try:
        target = find_target(snapshot, column.column)
    except ColumnNotFound:  # another tool dropped one of its inputs
        return None
    return StoredColumn(
        column=column.column,
        function=fold(column.function),
        version_digest=column.digest,
        inputs=target.inputs,
        fully_fresh=not unproven(snapshot, target, catalog),
    )
