"""Which computed columns of a table a query may read instead of calling their Function, and in which rows."""

from __future__ import annotations

import pyarrow as pa

from lancegpu_sql.apply.digest import row_digests
from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import ColumnNotFound, InvalidData
from lancegpu_sql.query.proof import Proof, Stored
from lancegpu_sql.refresh.current import Arguments, states, unproven
from lancegpu_sql.refresh.target import Target, find_target
from lancegpu_sql.sql.call_reader import with_values
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import StoredColumn
from lancegpu_sql.tables.snapshot import Snapshot


def stored_columns(snapshot: Snapshot, catalog: Catalog) -> tuple[Stored, ...]:
    """Return them: whether they are fresh in all rows is told by the files alone, so that nothing is read for it.

    A column that shows a field of a struct is none.
    """
    found = (_stored(snapshot, catalog, column) for column in snapshot.computed)
    return tuple(stored for stored in found if stored is not None)


def _stored(snapshot: Snapshot, catalog: Catalog, column: ComputedColumn) -> Stored | None:
    if column.output_field is not None:
        return None
    try:
        target = find_target(snapshot, column.column)
    except ColumnNotFound:  # another tool dropped one of its inputs
        return None
    doubtful = unproven(snapshot, target, catalog)
    stored = StoredColumn(
        column=column.column,
        function=with_values(fold(column.function), column.bound),
        version_digest=column.digest,
        inputs=target.inputs,
        fully_fresh=not doubtful,
    )
    return Stored(stored, _proof(target, frozenset(fragment.id for fragment in doubtful), catalog))


def _proof(target: Target, doubtful: frozenset[int], catalog: Catalog) -> Proof | None:
    """How to tell in which rows the column is fresh; a row that failed is not, for a query calls its Function anew."""
    function = catalog.find_function(target.declaration.function, target.declaration.digest)
    if function is None:
        return None
    arguments = Arguments(target, function)

    def current(batch: pa.RecordBatch) -> pa.Array:
        try:
            present = arguments.of(batch)
        except InvalidData:  # the calls will say so of the row that they cannot take
            return pa.repeat(False, batch.num_rows)
        return pa.array(states(batch.column(target.proof_column), row_digests(present, target.key)).fresh)

    return Proof((*dict.fromkeys(target.inputs), target.proof_column), doubtful, current)
