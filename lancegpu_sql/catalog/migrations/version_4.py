"""Schedules of refreshes."""

from __future__ import annotations

import sqlalchemy as sa

_json = sa.JSON(none_as_null=True)
_time = sa.DateTime(timezone=True)

_schedules = sa.Table(
    "schedules",
    sa.MetaData(),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("job_kind", sa.String(64), nullable=False),
    sa.Column("table", sa.String(255), nullable=False),
    sa.Column("columns", _json, nullable=False),
    sa.Column("request", _json, nullable=False),
    sa.Column("sources", _json, nullable=False),
    sa.Column("rule", _json, nullable=False),
    sa.Column("on_change", sa.Boolean, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("next_run", _time),
    sa.Column("seen", _json, nullable=False),
    sa.Column("job_id", sa.String(36)),
    sa.Column("last_job_id", sa.String(36)),
    sa.Column("last_run", _time),
    sa.Column("last_result", _json),
    sa.Column("last_error", _json),
    sa.Column("streak", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False),
    sa.Column("on_failure", _json),
    sa.Column("on_waiting", _json),
    sa.Column("waiting_limit_seconds", sa.Float),
    sa.Column("waiting_told", sa.Boolean, nullable=False),
    sa.Index("schedules_by_next_run", "next_run"),
    sa.Index("schedules_by_job", "job_id"),
    sa.Index("schedules_by_table", "table"),
)


def upgrade(connection: sa.Connection) -> None:
    """Add schedules."""
    _schedules.create(connection)
