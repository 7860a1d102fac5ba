"""What SQL may not do here, and what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.statement import Write
from lancegpu_sql.sql.tokens import tokens_of

_NOT_HERE = {
    "TRANSACTION": "Each statement is a transaction of its own here; leave out BEGIN, COMMIT and ROLLBACK.",
    "PREPARE": "PREPARE is not kept between statements: give values as parameters, sql(text, [value, …]).",
    "EXECUTE": "EXECUTE has nothing to run: give values as parameters, sql(text, [value, …]).",
}
_METHODS = {
    "CREATE": "lance or lancedb, such as lance.dataset(folder).create_scalar_index(column, 'BTREE')",
    "INSERT": "table.add(rows)",
    "COPY": "INSERT INTO the table FROM 'file.csv', or table.add(rows)",
    "UPDATE": "table.update(...)",
    "DELETE": "table.delete(where)",
    "TRUNCATE": "table.delete('true')",
    "MERGE": "table.merge_insert(...)",
    "ALTER": "table.add_columns(...), table.alter_column(...) or table.drop_columns(...)",
    "DROP": "db.drop_table(name)",
}
# What DuckDB keeps by name, for the session.
_KEPT_KINDS = frozenset({"TABLE", "VIEW", "MACRO", "FUNCTION", "SEQUENCE"})
_OWN_CATALOGS = frozenset({"memory", "main", "temp"})
# They say where names are looked up, which is this session's affair.
_FIXED_SETTINGS = frozenset({"schema", "search_path", "use"})


def check_statement(kind: str, text: str) -> None:
    """Refuse a kind of statement that has no meaning here."""
    if kind in _NOT_HERE:
        raise InvalidQuery(_NOT_HERE[kind])
    if kind == "SET" and _setting_name(text) in _FIXED_SETTINGS:
        raise InvalidQuery("Names are looked up in this database; write another one's before the name: other.main.t.")


def check_write(write: Write, *, made: Sequence[str], table: Callable[[str], str | None]) -> None:
    """Refuse a statement that would write to a table of the database, or make something that would not last.

    Parameters
    ----------
    made
        The names of what the session made.
    table
        The table of the database that a name means, if any.
    """
    if not write.target or (len(write.target) > 1 and fold(write.target[0]) not in _OWN_CATALOGS):
        return  # it names nothing, or something in another database that the user attached
    name = write.target[-1]
    if write.verb == "CREATE" and write.kind in _KEPT_KINDS:
        if write.kind == "TABLE" and not write.temporary:
            raise InvalidQuery(
                "A session makes TEMP tables only: CREATE TEMP TABLE keeps rows for this session, db.sql and db.create_table "
                "make tables of the database."
            )
        if len(write.target) > 1:
            raise InvalidQuery(f"Write the name of a {write.kind.lower()} of this session alone: {name}.")
        if write.kind in {"TABLE", "VIEW"} and table(name) is not None:
            raise InvalidQuery(f"There is a table {table(name)!r} already; give the {write.kind.lower()} another name.")
        return
    if write.kind not in {"TABLE", "VIEW", "INDEX"} or any(fold(name) == fold(other) for other in made):
        return
    meant = table(name)
    if meant is not None and write.title == "DROP VIEW":
        raise InvalidQuery(
            f"{meant!r} is no view of this session: write DROP MATERIALIZED VIEW {meant} or DROP TABLE {meant} "
            "(db.drop_materialized_view or db.drop_table)."
        )
    if meant is not None:
        method = _METHODS.get(write.verb)
        raise InvalidQuery(
            f"{write.title} on table {meant!r} is not done here"
            + (f": use {method}." if method else "; use the table's methods.")
        )


def remembered_setting(kind: str, text: str) -> str | None:
    """The name under which a SET is kept, so that every connection repeats it; None for another statement."""
    return _setting_name(text) if kind == "SET" else None


def _setting_name(text: str) -> str:
    words = [fold(token.text) for token in tokens_of(text)]
    if words[0] == "use":
        return "use"
    scope = words[1] if words[1:2] and words[1] in {"session", "global", "local", "variable"} else ""
    name = words[2] if scope else words[1]
    return f"variable {name}" if scope == "variable" else name
