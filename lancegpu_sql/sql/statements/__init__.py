"""Statements: a text cut into typed values, each with its place, by hand-written reading that knows what it expected.

What belongs to DuckDB (queries, expressions, types, its own statements) is kept as text. Nothing is run and nothing is
looked up: whether a table or an option exists is for those who have them.
"""

from __future__ import annotations

from lancegpu_sql.sql.statements.splitting import split

__all__ = ["split"]
