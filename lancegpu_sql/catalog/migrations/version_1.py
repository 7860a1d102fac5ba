"""Functions, GPU classes, jobs, events and proofs."""

from __future__ import annotations

import sqlalchemy as sa

_json = sa.JSON(none_as_null=True)
_time = sa.DateTime(timezone=True)
_big_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_metadata = sa.MetaData()

sa.Table(
    "functions",
    _metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("next_version", sa.Integer, nullable=False),
    sa.Column("placement", _json, nullable=False),
)
sa.Table(
    "function_versions",
    _metadata,
    sa.Column("function_key", sa.ForeignKey("functions.key"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("definition", _json, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("function_key", "digest", name="one_version_per_digest"),
)
sa.Table(
    "gpu_classes",
    _metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("spec", _json, nullable=False),
    sa.Column("updated_at", _time, nullable=False),
)
sa.Table(
    "jobs",
    _metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("table", sa.String(255)),
    sa.Column("columns", _json, nullable=False),
    sa.Column("request", _json, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("waiting_on", _json),
    sa.Column("progress", _json),
    sa.Column("result", _json),
    sa.Column("error", _json),
    sa.Column("owner", _json),
    sa.Column("created_at", _time, nullable=False),
    sa.Column("started_at", _time),
    sa.Column("finished_at", _time),
    sa.Column("timings", _json),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Index("jobs_by_state", "state"),
    sa.Index("jobs_by_table", "table"),
)
sa.Table(
    "events",
    _metadata,
    sa.Column("id", _big_id, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE")),
    sa.Column("subject", sa.String(300), nullable=False),
    sa.Column("at", _time, nullable=False),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("detail", _json, nullable=False),
    sa.Index("events_by_job", "job_id", "id"),
    sa.Index("events_by_subject", "subject", "id"),
    sqlite_autoincrement=True,
)
sa.Table(
    "proofs",
    _metadata,
    sa.Column("column_key", sa.String(300), primary_key=True),
    sa.Column("signature", sa.LargeBinary(64), primary_key=True),
)


def upgrade(connection: sa.Connection) -> None:
    """Make the first tables."""
    _metadata.create_all(connection, checkfirst=False)
