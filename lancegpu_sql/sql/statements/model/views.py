"""Statements about materialized views."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.schedules import ScheduleClause
from lancegpu_sql.sql.statements.model.statement import Name, Options, Statement


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
