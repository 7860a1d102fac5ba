"""Texts of any length on every store."""

from __future__ import annotations

import sqlalchemy as sa


def upgrade(connection: sa.Connection) -> None:
    """Let PostgreSQL keep texts as long as they come, as SQLite does: keys hold names of tables, columns and Functions."""
    if connection.dialect.name != "postgresql":
        return
    inspector = sa.inspect(connection)
    quoted = connection.dialect.identifier_preparer.quote
    for table in inspector.get_table_names():
        bounded = [column["name"] for column in inspector.get_columns(table) if getattr(column["type"], "length", None)]
        changes = ", ".join(f"ALTER COLUMN {quoted(name)} TYPE TEXT" for name in bounded)
        if changes:
            connection.execute(sa.text(f"ALTER TABLE {quoted(table)} {changes}"))
