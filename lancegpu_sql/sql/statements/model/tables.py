"""Statements about tables and their rows."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.statement import Name, Statement


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of a new table; `type` in DuckDB's words."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t (column type, …)."""

    table: Name
    columns: tuple[ColumnDefinition, ...]
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class CreateTableAs(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [(column, …)] AS query [WITH [NO] DATA]."""

    table: Name
    columns: tuple[str, ...]
    query: str
    with_data: bool
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    """[WITH …] INSERT INTO t [(column, …)] [BY NAME] query; `query` is None for DEFAULT VALUES.

    `query_parts` are what of the query stands in the statement: its WITH and the rest.
    """

    table: Name
    columns: tuple[str, ...]
    by_name: bool
    query: str | None
    query_parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CopyFrom(Statement):
    """COPY t [(column, …)] FROM 'file' (…); `source` is what stands from FROM on."""

    table: Name
    columns: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Assignment:
    """column = expression; `expression` is None for DEFAULT."""

    column: str
    expression: str | None


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    """[WITH …] UPDATE t [AS alias] SET column = expression, … [FROM …] [WHERE …]; `with_list` is its WITH."""

    table: Name
    alias: str | None
    with_list: str
    assignments: tuple[Assignment, ...]
    sources: str | None
    where: str | None


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    """DELETE FROM t [AS alias] [USING …] [WHERE …]; TRUNCATE t is one without conditions."""

    table: Name
    alias: str | None
    with_list: str
    sources: str | None
    where: str | None


@dataclass(frozen=True)
class MergeAction:
    """What a MERGE does with rows of one kind.

    Attributes
    ----------
    when
        ``matched``, ``new`` (the table has no such row) or ``missing`` (the source has none).
    condition
        Beyond that; None for none.
    action
        ``update``, ``delete``, ``insert``, ``nothing`` or ``error``.
    assignments
        What an update sets, or an insert with a list of columns.
    values
        The values of an insert without such a list, one a column.
    all_columns
        In place of both: the source's columns, by ``name`` or by ``position``.
    error
        What an ``error`` says, as an expression.
    """

    when: str
    condition: str | None
    action: str
    assignments: tuple[Assignment, ...] = ()
    values: tuple[str | None, ...] | None = None
    all_columns: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Merge(Statement):
    """MERGE INTO t [AS alias] USING source [AS name [(column, …)]] ON condition WHEN …

    `using` names columns that must be equal, in place of a condition.
    """

    table: Name
    alias: str | None
    with_list: str
    source: str
    source_name: str
    source_columns: tuple[str, ...]
    condition: str | None
    using: tuple[str, ...]
    actions: tuple[MergeAction, ...]


@dataclass(frozen=True, kw_only=True)
class DropTable(Statement):
    """DROP TABLE [IF EXISTS] t."""

    table: Name
    if_exists: bool


@dataclass(frozen=True, kw_only=True)
class ShowTables(Statement):
    """SHOW TABLES."""


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE of a table or a query; `query` is what it describes as DuckDB reads it, `table` what is named alone."""

    query: str
    table: Name | None = None
