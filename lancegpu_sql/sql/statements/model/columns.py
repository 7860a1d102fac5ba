"""Statements about the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.schedules import ScheduleClause
from lancegpu_sql.sql.statements.model.statement import Name, Options, Statement, Value


@dataclass(frozen=True, kw_only=True)
class AddComputedColumn(Statement):
    """ALTER TABLE t ADD COLUMN c [type] AS (f(x, …)) [SCHEDULE … [WITH (…)]].

    `columns` are the arguments that are columns, by position (a number from 0) or by name; `values` are constants, for
    the ``__init__`` of a class. `options` are those of the schedule.
    """

    table: Name
    column: str
    type: str | None
    function: str
    columns: tuple[tuple[int | str, str], ...]
    values: tuple[tuple[str, Value], ...]
    if_not_exists: bool
    schedule: ScheduleClause | None = None
    options: Options = ()


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
