"""Statements about schedules of computed columns, and the clause that says when."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.statement import Name, Options, Statement


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
