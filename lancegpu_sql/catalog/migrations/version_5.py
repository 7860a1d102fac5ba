"""Why rows failed, and how many rows at once fit into a worker's memory."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

_metadata = sa.MetaData()

_new_columns = sa.Table("function_versions", _metadata, sa.Column("fits_rows", sa.JSON(none_as_null=True)))
# As it stands already: what refers to it needs to see it.
sa.Table("jobs", _metadata, sa.Column("id", sa.String(36), primary_key=True))
_row_errors = sa.Table(
    "row_errors",
    _metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
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
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("row_errors_by_job", "job_id", "id"),
    sa.Index("row_errors_by_column", "table", "proof_column", "id"),
)


def upgrade(connection: sa.Connection) -> None:
    """Add what is kept of rows that failed, and what is learnt of a version's need for memory."""
    for column in _new_columns.columns:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE function_versions ADD COLUMN {described}"))
    _row_errors.create(connection)
