"""Leases of jobs, requests to pause, and the agents that serve a database."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

_json = sa.JSON(none_as_null=True)
_time = sa.DateTime(timezone=True)

_metadata = sa.MetaData()

_new_columns = sa.Table(
    "jobs",
    _metadata,
    sa.Column("lease", sa.String(36)),
    sa.Column("heartbeat", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("pause_requested", sa.Boolean, nullable=False, server_default=sa.false()),
)
_agents = sa.Table(
    "agents",
    _metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("identity", _json, nullable=False),
    sa.Column("kinds", _json, nullable=False),
    sa.Column("concurrency", sa.Integer, nullable=False),
    sa.Column("lease_seconds", sa.Float, nullable=False),
    sa.Column("heartbeat", sa.BigInteger, nullable=False),
    sa.Column("started_at", _time, nullable=False),
    sa.Column("seen_at", _time, nullable=False),
)


def upgrade(connection: sa.Connection) -> None:
    """Add what claims by several processes need."""
    for column in _new_columns.columns:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE jobs ADD COLUMN {described}"))
    _agents.create(connection)
