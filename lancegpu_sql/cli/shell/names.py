"""The names that the shell completes, asked from the database when they are wanted, and anew after each statement."""

from __future__ import annotations

from collections.abc import Sequence

from lancegpu_sql.database import Database
from lancegpu_sql.database.statements.columns import OPTIONS as OF_REFRESH
from lancegpu_sql.database.statements.functions import OPTIONS as OF_FUNCTION
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.sql.names import quote


class DatabaseNames:
    """What a database and its session have; a `lancegpu_sql.cli.shell.completion.Names`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables: Sequence[str] | None = None
        self._functions: Sequence[str] | None = None
        self._columns: dict[str, Sequence[str]] = {}

    def forget(self) -> None:
        """Ask again: a statement was run."""
        self._tables = self._functions = None
        self._columns = {}

    def tables(self) -> Sequence[str]:
        """Return the names of tables and views, those of the session among them."""
        if self._tables is None:
            self._tables = [name for (name,) in self._database.sql("SHOW TABLES").fetchall()]
        return self._tables

    def functions(self) -> Sequence[str]:
        """Return the names of Functions."""
        if self._functions is None:
            self._functions = [version.name for version in self._database.list_functions()]
        return self._functions

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table; none where it cannot be read."""
        if table not in self._columns:
            try:
                self._columns[table] = self._database.sql(f"FROM {quote(table)}").columns
            except LanceGpuError:
                self._columns[table] = ()
        return self._columns[table]

    def options(self, statement: str) -> Sequence[str]:
        """Return what WITH may say in a statement that begins with these words; none of another one."""
        return {"CREATE FUNCTION": OF_FUNCTION, "REFRESH COLUMN": OF_REFRESH}.get(statement, ())
