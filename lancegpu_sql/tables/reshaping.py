"""Changes of a table's columns by users, with an eye on the computed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lancegpu_sql.errors import InUse, InvalidData, InvalidName, InvalidQuery
from lancegpu_sql.tables.columns import proofs_left_over, readers_of
from lancegpu_sql.tables.engine import lance_errors, until_committed
from lancegpu_sql.tables.naming import check_column_names, check_free, is_hidden
from lancegpu_sql.tables.reading import writes
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.views import refuse_view


@writes
def add_sql_columns(snapshot: Snapshot, expressions: Mapping[str, str]) -> Snapshot:
    """Add columns filled at once from SQL expressions (Lance's) over the present ones.

    They are plain columns: nothing keeps them up to date.

    Raises
    ------
    InvalidName, AlreadyExists, InvalidQuery
    """
    check_column_names(expressions)

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        check_free(latest.name, latest.full_schema.names, expressions)
        with lance_errors(latest.name, InvalidQuery):
            latest.dataset.add_columns(dict(expressions))
        return latest.latest()

    return until_committed(attempt)


@writes
def add_empty_column(snapshot: Snapshot, name: str, data_type: pa.DataType) -> Snapshot:
    """Add a plain column that is null in every row; no data is written.

    Raises
    ------
    InvalidName, AlreadyExists
    InvalidData
        Lance stores no such type.
    """
    check_column_names([name])

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        check_free(latest.name, latest.full_schema.names, [name])
        with lance_errors(latest.name):
            latest.dataset.add_columns(pa.field(name, data_type))
        return latest.latest()

    return until_committed(attempt)


@writes
def drop_columns(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Drop columns; the proof of computed ones goes with the last of them.

    Raises
    ------
    ColumnNotFound
    InUse
        A computed column that stays reads one of them. Drop it first, or in the same call.
    """

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        for name in names:
            _refuse_hidden(latest, name)
            users = set(readers_of(latest.field_id(name), latest.computed)) - set(names)
            if users:
                raise _in_use(latest, name, users, "dropped")
        if set(latest.schema.names) <= set(names):
            raise InvalidData(f"Table {latest.name!r} would have no column left.", table=latest.name)
        going = list(dict.fromkeys((*names, *proofs_left_over(names, latest.computed))))
        with lance_errors(latest.name):
            latest.dataset.drop_columns(going)
        return latest.latest()

    return until_committed(attempt)


@writes
def rename_column(snapshot: Snapshot, name: str, new_name: str) -> Snapshot:
    """Rename a column. Computed columns that read it know it by its field id and go on as before.

    Raises
    ------
    ColumnNotFound, InvalidName, AlreadyExists
    """
    check_column_names([new_name])

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        _refuse_hidden(latest, name)
        latest.field_id(name)
        check_free(latest.name, (other for other in latest.full_schema.names if other != name), [new_name])
        with lance_errors(latest.name):
            latest.dataset.alter_columns({"path": name, "name": new_name})
        return latest.latest()

    return until_committed(attempt)


@writes
def retype_column(snapshot: Snapshot, name: str, data_type: pa.DataType) -> Snapshot:
    """Change a column's type, casting its values.

    Lance gives the column a new field id, so that a computed column that read it would have lost its input.

    Raises
    ------
    ColumnNotFound
    InvalidData
        The values cannot be cast.
    InUse
        A computed column reads it, or it is computed itself.
    """

    def attempt() -> Snapshot:
        latest = snapshot.latest()
        refuse_view(latest)
        _refuse_hidden(latest, name)
        users = readers_of(latest.field_id(name), latest.computed)
        if users:
            raise _in_use(latest, name, users, "given another type")
        if any(column.column == name for column in latest.computed):
            raise InUse(
                f"Column {name!r} of table {latest.name!r} is computed: its type is its Function's. Drop it, and add it "
                "again with a Function that returns another type.",
                table=latest.name,
                users=(name,),
            )
        with lance_errors(latest.name):
            latest.dataset.alter_columns({"path": name, "data_type": data_type})
        return latest.latest()

    return until_committed(attempt)


def _refuse_hidden(latest: Snapshot, name: str) -> None:
    if is_hidden(name):
        raise InvalidName(f"Column {name!r} of table {latest.name!r} is kept for this package.", name=name)


def _in_use(latest: Snapshot, name: str, users: Iterable[str], what: str) -> InUse:
    named = sorted(users)
    return InUse(
        f"Column {name!r} of table {latest.name!r} cannot be {what}: computed from it are {', '.join(map(repr, named))}. "
        "Drop these first.",
        table=latest.name,
        users=tuple(named),
    )
