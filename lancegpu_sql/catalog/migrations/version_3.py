"""The size on which a Function version's CPU workers start."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

_new_columns = sa.Table("function_versions", sa.MetaData(), sa.Column("cpu_rung", sa.String(64)))


def upgrade(connection: sa.Connection) -> None:
    """Add what is learnt of a version's need for memory."""
    for column in _new_columns.columns:
        described = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(sa.text(f"ALTER TABLE function_versions ADD COLUMN {described}"))
