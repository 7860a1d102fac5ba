"""What carrying out a statement needs: the database, the session, and the tables that names mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import ColumnNotFound, InvalidQuery, TableNotFound
from lancegpu_sql.query.readable import check_distinct
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.session import Parameters, QuerySession
from lancegpu_sql.query.storable import arrow_keeps, check_stored
from lancegpu_sql.sql.names import choose, fold, quote
from lancegpu_sql.sql.places import offset_of
from lancegpu_sql.sql.statements.blame import told_of
from lancegpu_sql.sql.statements.jobs import SHOWN
from lancegpu_sql.sql.statements.model import Name, Options, Statement, Value
from lancegpu_sql.sql.statements.options import known, seconds
from lancegpu_sql.tables.snapshot import Snapshot

_OWN_CATALOGS = frozenset({"memory", "main"})
# To DuckDB, SHOW with a name is DESCRIBE; who writes it may have meant a list.
_SHOWS_A_NAME = re.compile(r"\s*SHOW\s+\w+\s*;?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Context:
    """One statement's surroundings.

    Attributes
    ----------
    text
        The whole text that it stands in, for places in it.
    parameters
        Values for its ``?``, ``$1`` or ``$name``.
    statement
        It, as it was read.
    """

    services: Services
    session: QuerySession
    text: str
    parameters: Parameters | None
    statement: Statement

    @property
    def text_at(self) -> int:
        """Where the statement begins in the text."""
        return offset_of(self.text, self.statement.place)

    # Names

    def is_ours(self, name: Name) -> bool:
        """Whether a table of this name is, or would be, the database's: neither the session's nor another database's."""
        return is_own_name(name, self.session)

    def table_name(self, name: Name) -> str | None:
        """The table of the database that a name means, if there is one."""
        return self.session.table_named(name[-1]) if self.is_ours(name) else None

    def snapshot(self, name: Name) -> Snapshot:
        """The latest version of the table that a name means.

        Raises
        ------
        TableNotFound
        """
        meant = self.table_name(name)
        if meant is None:
            raise TableNotFound(self.session.no_table(name[-1]).message, table=name[-1])
        return self.services.tables.open(meant)

    def options(self, given: Options, names: Iterable[str]) -> dict[str, Value]:
        """Options as a mapping; an unknown one is refused with its place."""
        return known(self.text, given, names)

    def timed_options(self, given: Options, names: Iterable[str]) -> dict[str, Any]:
        """Options as a mapping, with the seconds of those that are spans of time, such as ``'10 minutes'``."""
        options: dict[str, Any] = self.options(given, names)
        for name, value in options.items():
            of_time = name.endswith("_seconds") or name == "on_waiting_longer_than"
            if of_time and isinstance(value, str) and (span_seconds := seconds(value)) is not None:
                options[name] = span_seconds
        return options

    # Running

    def engine(self, statement: Statement, parts: Sequence[str] = ()) -> QueryResult:
        """Give a statement to DuckDB as written, or one that is put together of parts of it."""
        with self.told_of(statement.text, parts):
            return self.session.sql(statement.text, self.parameters)

    def query(self, text: str, parts: Sequence[str] = ()) -> QueryResult:
        """Run a query that is part of the statement, as written, or put together of such parts."""
        with self.told_of(text, parts):
            return self.session.query(text, self.parameters)

    def types(self, columns: Sequence[tuple[str, str]]) -> list[pa.DataType]:
        """The Arrow types under which a table keeps columns of these names and types, as they stand in the statement."""
        values = ",\n".join(f"CAST(NULL AS {kind}) AS {quote(f'value {at}')}" for at, (_, kind) in enumerate(columns))
        query = f"SELECT {values} LIMIT 0"
        with self.told_of(query, [kind for _, kind in columns]):
            result = self.session.query(query)
        if len(result.columns) != len(columns):
            raise InvalidQuery(f"This is no type: {', '.join(kind for _, kind in columns)}.")
        for kind, (name, _) in zip(result.types, columns, strict=True):
            check_stored(kind, name)
        kept = [f"CAST(NULL AS {arrow_keeps(kind)})" for kind in result.types]
        return list(self.session.query(f"SELECT {', '.join(kept)} LIMIT 0").to_arrow().schema.types)

    def rows_of(self, query: str, parts: Sequence[str] = ()) -> QueryResult:
        """The rows of a query that is part of the statement, in types that Arrow keeps."""
        result = self.query(query, parts)
        kept = list(map(arrow_keeps, result.types))
        if kept == result.types:
            return result
        columns = [f"c{at}" for at in range(len(kept))]
        casts = [
            f"CAST({column} AS {kind}) AS {quote(name)}"
            for column, kind, name in zip(columns, kept, result.columns, strict=True)
        ]
        text = f"SELECT {', '.join(casts)} FROM (\n{query}\n) AS given({', '.join(columns)})"  # noqa: S608 - the user's
        return self.query(text, parts or (query,))

    @contextmanager
    def told_of(self, query: str, parts: Sequence[str] = ()) -> Iterator[None]:
        """Raise what DuckDB says of a query as something about the statement, whose parts stand in that query."""
        try:
            yield
        except InvalidQuery as exc:
            if _SHOWS_A_NAME.fullmatch(query) and exc.message.startswith("There is no table"):
                raise InvalidQuery(
                    f"{exc.message} SHOW is also for {', '.join(SHOWN)}.", **exc.facts
                ) from exc.__cause__
            raise told_of(exc, query, self.statement, self.text, parts=parts or (query,)) from exc.__cause__

    def column_types(self, snapshot: Snapshot) -> dict[str, str | None]:
        """DuckDB's type of each column that a statement may write; None where Arrow knows better."""
        check_distinct(snapshot.name, snapshot.schema)
        computed = {column.column for column in snapshot.computed}
        result = self.session.query('FROM "lancegpu rows"', given={"lancegpu rows": TableRelation(snapshot)})
        return {
            name: None if kind.startswith("ENUM") else kind
            for name, kind in zip(result.columns, result.types, strict=True)
            if name not in computed
        }

    # Results

    def count(self, rows: int) -> QueryResult:
        """What a statement that writes gives: how many rows."""
        return self.session.fixed(pa.table({"Count": pa.array([rows], pa.int64())}))

    def done(self) -> QueryResult:
        """What a statement gives that has nothing to tell."""
        return self.session.fixed(pa.table({"Success": pa.array([], pa.bool_())}))

    def rows(self, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> QueryResult:
        """Rows as a result."""
        return self.session.fixed(pa.Table.from_pylist(list(rows), schema=schema))


def is_own_name(name: Name, session: QuerySession) -> bool:
    """Whether a table of this name is, or would be, the database's: neither the session's nor another database's."""
    if len(name) > 1 and fold(name[0]) not in _OWN_CATALOGS:
        return False
    return all(fold(name[-1]) != fold(made) for made in session.made())


class _OfTable(Protocol):
    @property
    def table(self) -> Name: ...


_S = TypeVar("_S", bound=_OfTable)


def of_own_table(carry_out: Callable[[Context, _S], QueryResult]) -> Callable[[Context, _S], QueryResult]:
    """Let DuckDB have a statement as written where its table is not the database's."""

    @wraps(carry_out)
    def carried_out(context: Context, statement: _S) -> QueryResult:
        if not context.is_ours(statement.table):
            return context.engine(context.statement)
        return carry_out(context, statement)

    return carried_out


def column_of(snapshot: Snapshot, written: str) -> str:
    """The column that a written name means.

    Raises
    ------
    ColumnNotFound
    """
    meant = choose(written, snapshot.schema.names)
    if meant is None:
        raise ColumnNotFound(
            f"Table {snapshot.name!r} has no column {written!r}; its columns are {', '.join(snapshot.schema.names)}.",
            table=snapshot.name,
            column=written,
        )
    return meant


def as_json(value: Any) -> str | None:
    """A value of any shape as text in a column; None for none."""
    return None if value is None else json.dumps(value, default=str, ensure_ascii=False)
