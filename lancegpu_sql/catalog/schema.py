"""The catalog's tables as this release reads them; `migrations` makes them. Nothing here is SQLite's or PostgreSQL's own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware UTC time, also where the database keeps no time zones (SQLite)."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: sa.Dialect) -> datetime | None:
        """Store UTC."""
        return value if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: sa.Dialect) -> datetime | None:
        """Read UTC, whether or not the database says so."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def json_column(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    """Return a JSON column in which None is SQL's NULL."""
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=nullable)


# SQLite numbers rows by itself only in a column of the type INTEGER, which there has 64 bits anyway.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

metadata = sa.MetaData()

catalog_schema = sa.Table("catalog_schema", metadata, sa.Column("version", sa.Integer, nullable=False))

functions = sa.Table(
    "functions",
    metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("next_version", sa.Integer, nullable=False),
    json_column("placement", nullable=False),
)

function_versions = sa.Table(
    "function_versions",
    metadata,
    sa.Column("function_key", sa.ForeignKey("functions.key"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.String(64), nullable=False),
    json_column("definition", nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("cpu_rung", sa.String(64)),
    json_column("fits_rows"),
    sa.UniqueConstraint("function_key", "digest", name="one_version_per_digest"),
)

gpu_classes = sa.Table(
    "gpu_classes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    json_column("spec", nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("table", sa.String(255)),
    json_column("columns", nullable=False),
    json_column("request", nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    json_column("waiting_on"),
    json_column("progress"),
    json_column("result"),
    json_column("error"),
    json_column("owner"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    json_column("timings"),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("lease", sa.String(36)),
    sa.Column("heartbeat", sa.BigInteger, nullable=False, default=0),
    sa.Column("pause_requested", sa.Boolean, nullable=False),
    sa.Index("jobs_by_state", "state"),
    sa.Index("jobs_by_table", "table"),
)

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    json_column("identity", nullable=False),
    json_column("kinds", nullable=False),
    sa.Column("concurrency", sa.Integer, nullable=False),
    sa.Column("lease_seconds", sa.Float, nullable=False),
    sa.Column("heartbeat", sa.BigInteger, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", BigId, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE")),
    sa.Column("subject", sa.String(300), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    json_column("detail", nullable=False),
    sa.Index("events_by_job", "job_id", "id"),
    sa.Index("events_by_subject", "subject", "id"),
    # An id is never used again after its event was pruned, so that "after id" stays a place in history.
    sqlite_autoincrement=True,
)

proofs = sa.Table(
    "proofs",
    metadata,
    sa.Column("column_key", sa.String(300), primary_key=True),
    sa.Column("signature", sa.LargeBinary(64), primary_key=True),
)

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("job_kind", sa.String(64), nullable=False),
    sa.Column("table", sa.String(255), nullable=False),
    json_column("columns", nullable=False),
    json_column("request", nullable=False),
    json_column("sources", nullable=False),
    json_column("rule", nullable=False),
    sa.Column("on_change", sa.Boolean, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("next_run", UtcDateTime),
    json_column("seen", nullable=False),
    sa.Column("job_id", sa.String(36)),
    sa.Column("last_job_id", sa.String(36)),
    sa.Column("last_run", UtcDateTime),
    json_column("last_result"),
    json_column("last_error"),
    sa.Column("streak", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False),
    json_column("on_failure"),
    json_column("on_waiting"),
    sa.Column("waiting_limit_seconds", sa.Float),
    sa.Column("waiting_told", sa.Boolean, nullable=False),
    sa.Index("schedules_by_next_run", "next_run"),
    sa.Index("schedules_by_job", "job_id"),
    sa.Index("schedules_by_table", "table"),
)

row_errors = sa.Table(
    "row_errors",
    metadata,
    sa.Column("id", BigId, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("table", sa.String(255), nullable=False),
    sa.Column("proof_column", sa.String(300), nullable=False),
    sa.Column("row_id", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(32), nullable=False),
    sa.Column("function", sa.String(255), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("owner", sa.String(16), nullable=False),
    sa.Column("error_type", sa.String(200), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("traceback", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("row_errors_by_job", "job_id", "id"),
    sa.Index("row_errors_by_column", "table", "proof_column", "id"),
)
