"""Statements about GPU classes and jobs."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.statement import Name, Statement


@dataclass(frozen=True, kw_only=True)
class ShowGpuClasses(Statement):
    """SHOW GPU CLASSES."""


@dataclass(frozen=True, kw_only=True)
class ShowJobs(Statement):
    """SHOW [ALL] JOBS [FOR TABLE t]; without `every`, those queries are left out that finished."""

    table: Name | None
    every: bool


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
