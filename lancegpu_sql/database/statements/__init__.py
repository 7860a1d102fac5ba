"""Statements of SQL carried out: each becomes a call that the handles have as well, and rows that tell what came of it.

How a statement is read is `sql.statements`' affair, how a query runs is `query`'s.
"""

from __future__ import annotations

from lancegpu_sql.imports import undisturbed

with undisturbed():  # DuckDB and all that reads statements
    from lancegpu_sql.database.statements.running import run_each

__all__ = ["run_each"]
