"""UPDATE, DELETE and MERGE carried out: a query says what becomes of which rows, then one commit does it.

The query reads one version, and the commit is built on it. Where another writer was at the same rows meanwhile the commit
is refused, and the statement runs again on the version that writer made, so that no change is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql.database.services import Services
from lancegpu_sql.database.statements.context import Context, column_of, of_own_table
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.lock import column_lock
from lancegpu_sql.sql.statements import changes, model, split
from lancegpu_sql.sql.statements.blame import told_of
from lancegpu_sql.sql.statements.changes import CHANGE, ROW_COLUMNS, ROWS, Target
from lancegpu_sql.tables.changes import Change
from lancegpu_sql.tables.engine import until_committed
from lancegpu_sql.tables.fitting import refuse_computed
from lancegpu_sql.tables.reading import at_latest
from lancegpu_sql.tables.row_changes import RowChanges
from lancegpu_sql.tables.snapshot import Snapshot

_LOCK_NAME = "\0merge"  # of no column

S = TypeVar("S", model.Update, model.Delete, model.Merge)


@of_own_table
def update(context: Context, statement: model.Update) -> QueryResult:
    """Give rows other values."""
    statement = _numbered(statement)

    def attempt(snapshot: Snapshot) -> Change:
        columns = [column_of(snapshot, each.column) for each in statement.assignments]
        refuse_computed(snapshot, columns)
        assigned = tuple(
            replace(each, column=column) for each, column in zip(statement.assignments, columns, strict=True)
        )
        target = _target(context, snapshot, statement)
        text = changes.update_query(replace(statement, assignments=assigned), target)
        with RowChanges(snapshot) as work:
            for batch in _rows(context, snapshot, statement, text, 2 + len(columns)):
                values = pa.RecordBatch.from_arrays(batch.columns[2:], names=columns)
                work.update(*_numbers(batch), values)
            return work.commit()

    return context.count(_committed(context, statement.table, attempt).rows_updated)


@of_own_table
def delete(context: Context, statement: model.Delete) -> QueryResult:
    """Remove rows."""
    statement = _numbered(statement)

    def attempt(snapshot: Snapshot) -> Change:
        text = changes.delete_query(statement, _target(context, snapshot, statement))
        with RowChanges(snapshot) as work:
            for batch in _rows(context, snapshot, statement, text, 2):
                work.delete(_numbers(batch)[1])
            return work.commit()

    return context.count(_committed(context, statement.table, attempt).rows_deleted)


@of_own_table
def merge(context: Context, statement: model.Merge) -> QueryResult:
    """Update, delete and insert rows, as another table's rows match them or do not."""
    statement = _numbered(statement)

    def attempt(snapshot: Snapshot) -> Change:
        target = _target(context, snapshot, statement)
        using = tuple(column_of(snapshot, each) for each in statement.using)
        source = _source_columns(context, statement)
        actions = [_spelled_out(snapshot, each, list(target.types), source, statement) for each in statement.actions]
        written = list(dict.fromkeys(one.column for action in actions for one in action.assignments))
        refuse_computed(snapshot, written)
        text = changes.merge_query(replace(statement, using=using), target, actions, written)
        with RowChanges(snapshot) as work:
            for batch in _rows(context, snapshot, statement, text, 3):
                _merge_batch(work, batch, actions, written)
            return work.commit()

    with _one_at_a_time(context, statement):
        done = _committed(context, statement.table, attempt)
    return context.count(done.rows_inserted + done.rows_updated + done.rows_deleted)


def _source_columns(context: Context, statement: model.Merge) -> list[str]:
    query = changes.source_query(statement)
    with _told_of(context, statement, query):
        return context.session.query(query, context.parameters).columns


def _merge_batch(
    work: RowChanges, batch: pa.RecordBatch, actions: Sequence[model.MergeAction], written: Sequence[str]
) -> None:
    """Carry out what one batch of `changes.merge_query` says."""
    if pa.types.is_null(batch.column(CHANGE).type):
        return  # no action does anything
    chosen = pc.struct_field(batch.column(CHANGE), "action")
    kinds = {
        kind: [at for at, each in enumerate(actions) if each.action == kind] for kind in ("update", "delete", "insert")
    }
    for kind, numbers in kinds.items():
        rows = batch.filter(pc.is_in(chosen, value_set=pa.array(numbers, pa.int32())))
        if not rows.num_rows:
            continue
        if kind == "delete":
            work.delete(_numbers(rows)[1])
            continue
        own = {one.column for at in numbers for one in actions[at].assignments}
        names = [name for name in written if name in own]
        columns = [pc.struct_field(rows.column(CHANGE), f"v{written.index(name)}") for name in names]
        values = pa.RecordBatch.from_arrays(columns, names=names)
        if kind == "update":
            work.update(*_numbers(rows), values)
        else:
            work.insert(values)


def _spelled_out(
    snapshot: Snapshot,
    action: model.MergeAction,
    plain: Sequence[str],
    source: Sequence[str],
    statement: model.Merge,
) -> model.MergeAction:
    """An action with an assignment for each column that it writes, under the table's own names."""
    if action.all_columns is not None:
        given = list(source)
        columns = [column_of(snapshot, name) for name in given] if action.all_columns == "name" else list(plain)
        expressions: list[str | None] = [changes.source_column(statement, name) for name in given]
    elif action.values is not None:
        # DEFAULT VALUES gives none.
        columns, expressions = list(plain), list(action.values) or [None] * len(plain)
    else:
        columns = [column_of(snapshot, each.column) for each in action.assignments]
        expressions = [each.expression for each in action.assignments]
    if len(columns) != len(expressions):
        raise InvalidQuery(
            f"Table {snapshot.name!r} takes {len(columns)} columns ({', '.join(columns)}), but {action.action.upper()} gives "
            f"{len(expressions)}. BY NAME takes the columns by their names."
        )
    return replace(action, assignments=tuple(map(model.Assignment, columns, expressions)))


def _target(context: Context, snapshot: Snapshot, statement: model.Update | model.Delete | model.Merge) -> Target:
    return Target(statement.alias or statement.table[-1], context.column_types(snapshot))


def _rows(
    context: Context, snapshot: Snapshot, statement: model.Update | model.Delete | model.Merge, text: str, columns: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a query made for a statement: `ROW_COLUMNS` and what else it tells of each."""
    relation = TableRelation(snapshot, ROW_COLUMNS)
    with _told_of(context, statement, text):
        result = context.session.query(text, context.parameters, given={ROWS: relation})
        if len(result.columns) != columns:
            raise InvalidQuery("An expression of this statement gives several columns; each value is one.")
        with result.to_reader() as reader:
            yield from reader


@contextmanager
def _told_of(context: Context, statement: model.Update | model.Delete | model.Merge, query: str) -> Iterator[None]:
    """Raise what DuckDB says of a query made for a statement, whose parameters are numbered, as something about that."""
    try:
        yield
    except InvalidQuery as exc:
        parts = changes.parts_of(statement)
        raise told_of(
            exc, query, context.statement, context.text, written=statement.text, parts=parts
        ) from exc.__cause__


def _numbers(batch: pa.RecordBatch) -> tuple[Any, Any]:
    """Row ids and addresses, as numpy arrays of uint64."""
    ids, addresses = (batch.column(at).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False) for at in (0, 1))
    return ids, addresses


def _numbered(statement: S) -> S:
    """The statement with its parameters numbered, so that its parts may change their order."""
    (found,) = split(changes.numbered(statement.text))
    assert isinstance(found, type(statement))
    return found


def _committed(context: Context, name: model.Name, attempt: Callable[[Snapshot], Change]) -> Change:
    """What an attempt on the latest version gives, which is made again as long as other writers are first."""
    return until_committed(lambda: at_latest(context.snapshot(name), attempt))


def _one_at_a_time(context: Context, statement: model.Merge) -> AbstractContextManager[None]:
    """Hold off other MERGEs that insert into the table: each must see the rows of the one before, or both insert one.

    Lance does not take new rows for a conflict with other new rows.
    """
    if all(each.action != "insert" for each in statement.actions):
        return nullcontext()
    return _merging(context.services, str(context.table_name(statement.table)))


@contextmanager
def _merging(services: Services, name: str) -> Iterator[None]:
    with (
        column_lock(services.folder / "locks", name, _LOCK_NAME, cancelled=threading.Event(), blocked=lambda: None),
        services.catalog.alone(f"merge {name}"),
    ):
        yield
