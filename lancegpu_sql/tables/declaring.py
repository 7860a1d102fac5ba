"""Computed columns as commits: add them empty, point them elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.errors import ColumnNotFound, InvalidData
from lancegpu_sql.tables.columns import declaration_metadata, declared_fields
from lancegpu_sql.tables.engine import lance_errors, until_committed
from lancegpu_sql.tables.naming import check_columns, check_free
from lancegpu_sql.tables.reading import writes
from lancegpu_sql.tables.views import refuse_view

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot


@writes
def declare(snapshot: Snapshot, columns: Sequence[tuple[pa.Field, ComputedColumn]], proof: str) -> Snapshot:
    """Add the computed columns of one binding and their hidden proof, in one commit that writes no data.

    The declarations ride in the metadata of the new fields, so that no version shows one without the other.

    Parameters
    ----------
    columns
        Name and Arrow type of each column, with what it is computed by. They are added nullable.
    proof
        The name of the ``fixed_size_binary(16)`` column that proves them.

    Returns
    -------
    Snapshot
        The version that has them.

    Raises
    ------
    InvalidName, AlreadyExists, ColumnNotFound
        ColumnNotFound when an input column is gone.
    InvalidData
        Lance cannot store such a type, or the table is in Lance's first file format.
    """
    check_columns(field for field, _ in columns)
    fields = declared_fields(columns, proof)

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        _check_room(latest, columns, proof)
        with lance_errors(latest.name):
            latest.dataset.add_columns(fields)
        return latest.latest()

    return until_committed(attempt)


def _check_room(latest: Snapshot, columns: Sequence[tuple[pa.Field, ComputedColumn]], proof: str) -> None:
    if latest.has_first_format:
        raise InvalidData(
            f"Table {latest.name!r} is in Lance's first file format, which cannot take computed columns. "
            "Convert the table first.",
            table=latest.name,
        )
    check_free(latest.name, latest.full_schema.names, [field.name for field, _ in columns] + [proof])
    for _, declaration in columns:
        for field_id in declaration.inputs.values():
            latest.field_name(field_id)


@writes
def repoint(snapshot: Snapshot, columns: Sequence[ComputedColumn]) -> Snapshot:
    """Replace the declarations of columns that are computed already, in one commit; their values stay as they are.

    Raises
    ------
    ColumnNotFound
        One of them is not a computed column of the latest version.
    """

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        known = {column.column for column in latest.computed}
        for column in columns:
            if column.column not in known:
                raise ColumnNotFound(
                    f"Table {latest.name!r} has no computed column {column.column!r}.",
                    table=latest.name,
                    column=column.column,
                )
        with lance_errors(latest.name):
            latest.dataset.update_field_metadata({one.column: declaration_metadata(one) for one in columns})
        return latest.latest()

    return until_committed(attempt)
