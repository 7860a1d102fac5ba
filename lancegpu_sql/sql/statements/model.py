"""Statements as values: what was asked for, with the text it was asked in."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.places import Place

Name = tuple[str, ...]
"""A name with those before it: ``main.t`` is ``("main", "t")``."""
Value = bool | int | float | str | None


@dataclass(frozen=True)
class Option:
    """One of WITH (name = value, …); `position` is where its name stands in the whole text."""

    name: str
    value: Value
    position: int


Options = tuple[Option, ...]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement: as written, and where it begins in the text it was found in."""

    text: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    """Something that gives rows and changes nothing: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE."""


@dataclass(frozen=True, kw_only=True)
class Engine(Statement):
    """A statement of DuckDB's own, for the session: SET, PRAGMA, COPY, CREATE TEMP TABLE, CREATE MACRO, ATTACH."""


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] of another statement; `format` is ``text`` unless it says another one."""

    analyze: bool
    format: str
    statement: Statement


@dataclass(frozen=True, kw_only=True)
class Transaction(Statement):
    """BEGIN, COMMIT or ROLLBACK, which have no meaning here."""


# Functions


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a Function; `type` in Arrow's text form."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, kw_only=True)
class CreateFunction(Statement):
    """CREATE FUNCTION f(x type, …) RETURNS type LANGUAGE python AS $$source$$ [WITH (…)]."""

    name: str
    parameters: tuple[FunctionParameter, ...]
    output_type: str
    output_nullable: bool
    source: str
    options: Options
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class CreateFunctionFromFile(Statement):
    """CREATE FUNCTION f FROM 'file.py[:name]' [WITH (…)]; `defined_as` is its name in the file."""

    name: str
    path: str
    defined_as: str
    options: Options
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class ShowFunctions(Statement):
    """SHOW FUNCTIONS."""


@dataclass(frozen=True, kw_only=True)
class DescribeFunction(Statement):
    """DESCRIBE FUNCTION f [VERSION n]: every version, or one."""

    name: str
    version: int | None


@dataclass(frozen=True, kw_only=True)
class DropFunction(Statement):
    """DROP FUNCTION [IF EXISTS] f [VERSION n]."""

    name: Name
    version: int | None
    if_exists: bool


# Tables


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
    """[WITH …] INSERT INTO t [(column, …)] [BY NAME] query; `query` is None for DEFAULT VALUES."""

    table: Name
    columns: tuple[str, ...]
    by_name: bool
    query: str | None


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
    """DESCRIBE of a table or a query; `query` is what it describes as DuckDB reads it."""

    query: str


# Columns


@dataclass(frozen=True, kw_only=True)
class AddComputedColumn(Statement):
    """ALTER TABLE t ADD COLUMN c [type] AS (f(x, …)).

    `columns` are the arguments that are columns, by position (a number from 0) or by name; `values` are constants, for
    the ``__init__`` of a class.
    """

    table: Name
    column: str
    type: str | None
    function: str
    columns: tuple[tuple[int | str, str], ...]
    values: tuple[tuple[str, Value], ...]
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class AddColumn(Statement):
    """ALTER TABLE t ADD COLUMN c type: a plain column, empty; `type` in DuckDB's words."""

    table: Name
    column: str
    type: str
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class SetColumnFunction(Statement):
    """ALTER TABLE t ALTER COLUMN c SET FUNCTION f [VERSION n]."""

    table: Name
    column: str
    function: str
    version: int | None


@dataclass(frozen=True, kw_only=True)
class SetColumnType(Statement):
    """ALTER TABLE t ALTER COLUMN c TYPE type; `type` in DuckDB's words."""

    table: Name
    column: str
    type: str


@dataclass(frozen=True, kw_only=True)
class DropColumn(Statement):
    """ALTER TABLE t DROP COLUMN [IF EXISTS] c."""

    table: Name
    column: str
    if_exists: bool


@dataclass(frozen=True, kw_only=True)
class RenameColumn(Statement):
    """ALTER TABLE t RENAME COLUMN c TO d."""

    table: Name
    column: str
    new_name: str


@dataclass(frozen=True, kw_only=True)
class RefreshColumn(Statement):
    """REFRESH COLUMN c ON [TABLE] t [WHERE p] [WITH (…)]; `wait` is one of the options."""

    table: Name
    column: str
    where: str | None
    options: Options
    wait: bool


@dataclass(frozen=True, kw_only=True)
class ShowColumnsStatus(Statement):
    """SHOW COLUMNS STATUS FOR t."""

    table: Name


@dataclass(frozen=True)
class ScheduleClause:
    """SCHEDULE EVERY 'span' | CRON 'expression' [TIME ZONE 'zone'] [JITTER 'span'] | ON CHANGE, which has none of them.

    `position` is where it begins in the whole text.
    """

    every: str | None
    cron: str | None
    time_zone: str | None
    jitter: str | None
    position: int


@dataclass(frozen=True, kw_only=True)
class SetColumnSchedule(Statement):
    """ALTER TABLE t ALTER COLUMN c SET SCHEDULE … [WITH (…)]."""

    table: Name
    column: str
    schedule: ScheduleClause
    options: Options


@dataclass(frozen=True, kw_only=True)
class DropColumnSchedule(Statement):
    """ALTER TABLE t ALTER COLUMN c DROP SCHEDULE."""

    table: Name
    column: str


@dataclass(frozen=True, kw_only=True)
class EnableColumnSchedule(Statement):
    """ALTER TABLE t ALTER COLUMN c ENABLE SCHEDULE, or DISABLE SCHEDULE."""

    table: Name
    column: str
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class ShowSchedules(Statement):
    """SHOW SCHEDULES [FOR TABLE t]."""

    table: Name | None


# Materialized views


@dataclass(frozen=True, kw_only=True)
class CreateView(Statement):
    """CREATE MATERIALIZED VIEW [IF NOT EXISTS] v [WITH (…)] [SCHEDULE …] AS query [WITH [NO] DATA]."""

    view: Name
    query: str
    schedule: ScheduleClause | None
    options: Options
    with_data: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class RefreshView(Statement):
    """REFRESH MATERIALIZED VIEW v [WITH (…)]; `wait` is one of the options."""

    view: Name
    options: Options
    wait: bool


@dataclass(frozen=True, kw_only=True)
class SetViewSchedule(Statement):
    """ALTER MATERIALIZED VIEW v SET SCHEDULE … [WITH (…)]."""

    view: Name
    schedule: ScheduleClause
    options: Options


@dataclass(frozen=True, kw_only=True)
class DropViewSchedule(Statement):
    """ALTER MATERIALIZED VIEW v DROP SCHEDULE."""

    view: Name


@dataclass(frozen=True, kw_only=True)
class EnableViewSchedule(Statement):
    """ALTER MATERIALIZED VIEW v ENABLE SCHEDULE, or DISABLE SCHEDULE."""

    view: Name
    enabled: bool


@dataclass(frozen=True, kw_only=True)
class ExplainRefresh(Statement):
    """EXPLAIN REFRESH [MATERIALIZED VIEW] v."""

    view: Name


@dataclass(frozen=True, kw_only=True)
class ShowViews(Statement):
    """SHOW MATERIALIZED VIEWS."""


@dataclass(frozen=True, kw_only=True)
class DescribeView(Statement):
    """DESCRIBE MATERIALIZED VIEW v."""

    view: Name


@dataclass(frozen=True, kw_only=True)
class DropView(Statement):
    """DROP MATERIALIZED VIEW [IF EXISTS] v."""

    view: Name
    if_exists: bool


# GPU classes and jobs


@dataclass(frozen=True, kw_only=True)
class ShowGpuClasses(Statement):
    """SHOW GPU CLASSES."""


@dataclass(frozen=True, kw_only=True)
class ShowJobs(Statement):
    """SHOW JOBS [FOR TABLE t]."""

    table: Name | None


@dataclass(frozen=True, kw_only=True)
class DescribeJob(Statement):
    """DESCRIBE JOB 'id'."""

    job: str


@dataclass(frozen=True, kw_only=True)
class ShowErrors(Statement):
    """SHOW ERRORS FOR JOB 'id', or SHOW ERRORS FOR TABLE t [COLUMN c]; one of `job` and `table` is given."""

    job: str | None = None
    table: Name | None = None
    column: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShowEvents(Statement):
    """SHOW EVENTS FOR JOB 'id'."""

    job: str


@dataclass(frozen=True, kw_only=True)
class CancelJob(Statement):
    """CANCEL JOB 'id'."""

    job: str


@dataclass(frozen=True, kw_only=True)
class PauseJob(Statement):
    """PAUSE JOB 'id'."""

    job: str


@dataclass(frozen=True, kw_only=True)
class ResumeJob(Statement):
    """RESUME JOB 'id' [WITH (wait = false)]."""

    job: str
    wait: bool
