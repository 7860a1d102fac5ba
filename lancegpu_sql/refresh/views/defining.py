"""A query becomes a view: what it reads, what it calls, and whether it can be refreshed row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion, utc_now
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import signatures_of
from lancegpu_sql.refresh.views.model import ViewDefinition, Way
from lancegpu_sql.refresh.views.sources import PinnedTables
from lancegpu_sql.sql.call_reader import without_values
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.names import choose, fold
from lancegpu_sql.sql.statements import split
from lancegpu_sql.sql.statements.model import Query
from lancegpu_sql.sql.tree_nodes import tables_in
from lancegpu_sql.sql.views import (
    EngineFunctions,
    columns_read,
    not_row_wise,
    own_names,
    volatile_parts,
)
from lancegpu_sql.tables import TableStore
from lancegpu_sql.tables.naming import check_columns
from lancegpu_sql.tables.views import DIGEST, ORDINAL, SOURCE_ROW


@dataclass(frozen=True)
class Defined:
    """A view to be made: its definition, and the columns of its table, hidden ones too."""

    definition: ViewDefinition
    schema: pa.Schema


def define_view(tables: TableStore, functions: FunctionSource, query: str) -> Defined:
    """Read a query as a view's.

    Raises
    ------
    InvalidQuery
        It is no query, does not bind, or reads what lives in a session only.
    InvalidName
        One of its columns has no name that a table can have.
    """
    text = _one_query(query)
    pinned = PinnedTables(tables)
    session = pinned.session(functions)
    try:
        columns = session.schema(text)
        tree, engine = session.read_tree(text), session.engine_functions()
    finally:
        session.close()
    known = functions.known()
    sources = tuple(sorted(pinned.seen))
    volatile = volatile_parts(tree, engine, known) if tree is not None else ()
    volatile += _unversioned(tree, sources)
    reason = _not_by_rows(text, tree, engine, known, pinned, volatile)
    way: Way = "rows" if reason is None else "query"
    definition = ViewDefinition(
        query=text,
        functions=tuple(sorted({without_values(call.function) for call in calls_in(text, signatures_of(known))})),
        way=way,
        reason=reason,
        reads=columns_read(tree, {name: pinned.pin(name).schema.names for name in sources}),
        volatile=volatile,
        created_at=utc_now(),
    )
    return Defined(definition, _table_schema(columns, way))


def _not_by_rows(
    text: str,
    tree: object,
    engine: EngineFunctions,
    known: Mapping[str, FunctionVersion],
    pinned: PinnedTables,
    volatile: Sequence[str],
) -> str | None:
    """Why a view is not refreshed row by row; None where it is."""
    if tree is None:
        return "it is written in a way that tells too little of it"
    if len(pinned.seen) != 1:
        return "it reads several tables" if pinned.seen else "it reads no table"
    if volatile:
        return f"{volatile[0]} may be another one each time"
    reason = not_row_wise(text, tree, engine, known)
    (source,) = pinned.seen.values()
    if reason is None and not source.has_stable_row_ids:
        return f"table {source.name!r} has no stable row ids; converted, it has"
    return reason


def _one_query(query: str) -> str:
    statements = split(query)
    if len(statements) != 1 or not isinstance(statements[0], Query):
        raise InvalidQuery("A materialized view is made of one query: a SELECT, or what else gives rows.")
    return statements[0].text


def _unversioned(tree: object, sources: tuple[str, ...]) -> tuple[str, ...]:
    """What stands where tables stand and is none of the database: files that DuckDB reads by their names."""
    if tree is None:
        return ("a source that cannot be told",)
    own = own_names(tree)
    others = [name for name in sorted(tables_in(tree)) if fold(name) not in own and choose(name, sources) is None]
    return tuple(f"the file {name!r}" for name in others)


def _table_schema(columns: pa.Schema, way: Way) -> pa.Schema:
    """The columns of a view's table: those of its query, which can be null, and hidden ones that tell what rows were made of."""
    visible = [field.with_type(_stored(field.type)).with_nullable(True).with_metadata(None) for field in columns]
    check_columns(visible)
    own = [pa.field(DIGEST, pa.binary(16), nullable=False)]
    if way == "rows":
        own = [pa.field(SOURCE_ROW, pa.uint64(), nullable=False), pa.field(ORDINAL, pa.int32(), nullable=False), *own]
    return pa.schema([*visible, *own])


def _stored(kind: pa.DataType) -> pa.DataType:
    """A type as a table keeps it: a column of nothing but nulls is INTEGER, as in DuckDB."""
    return pa.int32() if pa.types.is_null(kind) else kind
