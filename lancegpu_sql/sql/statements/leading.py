"""One statement, told from others by its leading words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.statements import functions, jobs, maintenance, tables, views, writes
from lancegpu_sql.sql.statements.model import Describe, Engine, Explain, Name, Query, Statement, Transaction
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind, Word

_QUERIES = frozenset(
    {"SELECT", "FROM", "VALUES", "TABLE", "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER", "SUMMARIZE"}
)
_WRITES: Mapping[str, Callable[[Reader, str], Statement]] = {
    "INSERT": writes.insert,
    "UPDATE": writes.update,
    "DELETE": writes.delete,
    "MERGE": writes.merge,
}
_ENGINE = frozenset(
    {"SET", "RESET", "PRAGMA", "COPY", "ATTACH", "DETACH", "USE", "INSTALL", "LOAD", "EXPORT", "IMPORT", "CALL", "CHECKPOINT"}
    | {"FORCE", "VACUUM", "ANALYZE", "COMMENT", "PREPARE", "EXECUTE", "DEALLOCATE"}
)  # fmt: skip
_TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "ROLLBACK", "ABORT", "END"})
_OURS = (
    "WITH",
    "CREATE",
    "ALTER",
    "DROP",
    "TRUNCATE",
    "DESCRIBE",
    "DESC",
    "SHOW",
    "EXPLAIN",
    "REFRESH",
    "OPTIMIZE",
    "CANCEL",
    "PAUSE",
    "RESUME",
)
_LEADING = (*_OURS, *_QUERIES, *_WRITES, *_ENGINE, *_TRANSACTION)
# What DuckDB shows beside tables.
_SHOWN_BY_DUCKDB = frozenset({"ALL", "DATABASES", "SCHEMAS", "TABLES", "VARIABLES", "COLUMNS"})
_DROPPED_BY_DUCKDB = frozenset(
    {"VIEW", "MACRO", "SCHEMA", "SEQUENCE", "TYPE", "INDEX", "SECRET", "PERSISTENT", "TEMPORARY", "TEMP", "TRIGGER"}
    | {"COLLATION", "EXTENSION"}
)  # fmt: skip
_FORMATS = ("TEXT", "JSON", "HTML", "GRAPHVIZ", "YAML", "MERMAID")


def read(reader: Reader) -> Statement:
    """Read one statement; what is not understood, and is about a table of DuckDB's, is for DuckDB to understand."""
    try:
        return _read(reader)
    except ParseError:
        if reader.table is None or not reader.is_foreign(reader.table):
            raise
        reader.go_to(0)
        return _engine(reader)


def _read(reader: Reader) -> Statement:
    first = reader.peek()
    if reader.sees_sign("("):
        return _query(reader)
    word = first.folded
    if word in _QUERIES:
        return _query(reader)
    if word in _WRITES:
        if reader.sees("UPDATE", "EXTENSIONS"):
            return _engine(reader)
        reader.take()
        return _WRITES[word](reader, "")
    if word == "COPY":
        reader.take()
        return writes.copy_from(reader) or _engine(reader)
    if word in _ENGINE:
        return _engine(reader)
    if word in _TRANSACTION:
        return Transaction(text=reader.text, place=reader.start)
    if word in _READERS:
        return _READERS[word](reader)
    near = difflib.get_close_matches(word, _LEADING, n=1, cutoff=0.7)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return reader.refuse(
        f"{reader.whole[first.start : min(first.end, first.start + 40)]!r} does not begin a statement{guess}",
        expected=("a query", "a statement such as CREATE, INSERT, REFRESH or SHOW"),
    )


def _query(reader: Reader) -> Statement:
    return Query(text=reader.text, place=reader.start)


def _engine(reader: Reader) -> Statement:
    return Engine(text=reader.text, place=reader.start)


def _with(reader: Reader) -> Statement:
    """Tell a query from a statement that writes: what stands behind the list's last bracket."""
    first, depth = reader.at, 0
    while not reader.ended:
        word = reader.take()
        if word.kind is Kind.SIGN:
            depth += (word.value in ("(", "[", "{")) - (word.value in (")", "]", "}"))
        if depth == 0 and word.value == ")" and reader.peek().folded in _WRITES:
            with_list = reader.text_between(first, reader.at)
            return _WRITES[reader.take().folded](reader, with_list)
    return _query(reader)


def _create(reader: Reader) -> Statement:
    reader.keywords("CREATE")
    if reader.ended:
        reader.refuse(expected=("TABLE", "FUNCTION", "VIEW", "MACRO", "TEMP TABLE"))
    replace = reader.accept("OR", "REPLACE")
    if reader.accept("TABLE"):
        return tables.create_table(reader, replace=replace)
    if reader.accept("FUNCTION"):
        return functions.create_function(reader, replace=replace) if _is_ours(reader) else _engine(reader)
    if reader.accept("MATERIALIZED"):
        if replace:
            reader.refuse("A materialized view is not replaced: drop it first", expected="CREATE MATERIALIZED VIEW")
        reader.keywords("VIEW")
        return views.create_view(reader)
    near = difflib.get_close_matches(reader.peek().folded, ("TABLE", "FUNCTION"), n=1, cutoff=0.75)
    if near or reader.peek().kind is not Kind.NAME:
        reader.refuse(expected=("TABLE", "FUNCTION", "VIEW", "MACRO", "TEMP TABLE"))
    if reader.peek().folded in ("TEMP", "TEMPORARY") and reader.peek(1).folded == "FUNCTION" and _has_language(reader):
        reader.refuse("A Function is registered in the database: it is never temporary", expected="FUNCTION")
    return _engine(reader)


def _is_ours(reader: Reader) -> bool:
    """Whether CREATE FUNCTION makes a Function: it says LANGUAGE, RETURNS or FROM. DuckDB's makes a macro."""
    at = 3 if reader.sees("IF", "NOT", "EXISTS") else 0
    return not reader.sees_sign("(", at + 1) or _has_language(reader)


def _has_language(reader: Reader) -> bool:
    """Whether LANGUAGE or RETURNS stands outside of all brackets before a macro's AS, or instead of it."""
    first, depth, found, macro = reader.at, 0, False, False
    while not (reader.ended or found):
        word = reader.take()
        if word.kind is Kind.SIGN:
            depth += (word.value in ("(", "[", "{")) - (word.value in (")", "]", "}"))
        if depth <= 0:
            macro = macro or (word.folded == "AS" and reader.peek().kind not in (Kind.BODY, Kind.STRING))
            found = word.folded in ("LANGUAGE", "RETURNS") and not macro
    reader.go_to(first)
    return found or not macro


def _drop(reader: Reader) -> Statement:
    reader.keywords("DROP")
    if reader.accept("TABLE"):
        return tables.drop_table(reader)
    if reader.accept("FUNCTION"):
        return functions.drop_function(reader)
    if reader.accept("MATERIALIZED"):
        reader.keywords("VIEW")
        return views.drop_view(reader)
    if reader.peek().folded not in _DROPPED_BY_DUCKDB:
        reader.refuse(expected=("TABLE", "FUNCTION", "VIEW", "MATERIALIZED VIEW", "MACRO"))
    return _engine(reader)


def _alter(reader: Reader) -> Statement:
    reader.keywords("ALTER")
    if reader.accept("TABLE"):
        return tables.alter_table(reader)
    if reader.accept("MATERIALIZED"):
        reader.keywords("VIEW")
        return views.alter_view(reader)
    near = difflib.get_close_matches(reader.peek().folded, ("TABLE",), n=1, cutoff=0.75)
    if near or reader.peek().kind is not Kind.NAME:
        reader.refuse(expected=("TABLE", "VIEW", "SEQUENCE"))
    return _engine(reader)


def _truncate(reader: Reader) -> Statement:
    reader.keywords("TRUNCATE")
    return writes.truncate(reader)


def _refresh(reader: Reader) -> Statement:
    reader.keywords("REFRESH")
    if reader.accept("MATERIALIZED"):
        reader.keywords("VIEW")
        return views.refresh_view(reader)
    if not reader.sees("COLUMN"):
        reader.refuse(expected=("COLUMN", "MATERIALIZED VIEW"))
    return jobs.refresh(reader)


def _optimize(reader: Reader) -> Statement:
    reader.keywords("OPTIMIZE")
    return maintenance.optimize(reader)


def _ask_job(reader: Reader) -> Statement:
    return jobs.ask_job(reader, reader.take().folded)


def _describe(reader: Reader) -> Statement:
    reader.take()
    if reader.sees("FUNCTION") and reader.peek(1).is_name:
        reader.take()
        return functions.describe_function(reader)
    if reader.sees("JOB") and reader.peek(1).kind is not Kind.END:
        reader.take()
        return jobs.describe_job(reader)
    if reader.accept("MATERIALIZED", "VIEW"):
        return views.describe_view(reader)
    if reader.ended:
        return _query(reader)
    text, place = reader.text, reader.start
    words = reader.rest_words()
    query = reader.whole[words[0].start : words[-1].end]
    named = words[1:] if words[0].folded == "TABLE" and words[1].is_name else words
    return Describe(text=text, place=place, query=query, table=_name_alone(named))


def _show(reader: Reader) -> Statement:
    reader.keywords("SHOW")
    if reader.accept("MATERIALIZED"):
        reader.keywords("VIEWS")
        return views.show_views(reader)
    ours = jobs.show(reader)
    if ours is not None:
        return ours
    if reader.ended or reader.peek().folded in _SHOWN_BY_DUCKDB:
        return _query(reader)
    text, place, words = reader.text, reader.start, reader.rest_words()
    table = _name_alone(words)
    if table is not None:  # to DuckDB this is DESCRIBE
        return Describe(text=text, place=place, query=reader.whole[words[0].start : words[-1].end], table=table)
    reader.go_to(1)
    near = difflib.get_close_matches(reader.peek().folded, [one.split()[0] for one in jobs.SHOWN], n=1, cutoff=0.6)
    guess = f" (did you mean SHOW {near[0]}?)" if near else ""
    return reader.refuse(f"There is no such thing to show{guess}", expected=jobs.SHOWN)


def _name_alone(words: Sequence[Word]) -> Name | None:
    """The table of which nothing is said but its name."""
    names, signs = words[:-1:2], words[1:-1:2]
    alone = len(names) == len(signs) + 1 and all(word.is_name for word in names)
    dotted = all(word.kind is Kind.SIGN and word.value == "." for word in signs)
    return tuple(word.value for word in names) if alone and dotted else None


def _explain(reader: Reader) -> Statement:
    text, place = reader.text, reader.start
    reader.keywords("EXPLAIN")
    if reader.accept("REFRESH"):
        return views.explain_refresh(reader)
    if reader.sees("OPTIMIZE") and not reader.sees_sign(".", 1):
        reader.take()
        return maintenance.explain_optimize(reader)
    analyze, shape = reader.accept("ANALYZE"), "text"
    if reader.sees_sign("(") and reader.peek(1).folded in ("FORMAT", "ANALYZE"):
        for name, value in reader.list_of(lambda: _explain_option(reader)):
            if name == "ANALYZE":
                analyze = value == "TRUE"
            else:
                shape = value.lower()
    if reader.ended:
        reader.refuse(expected="a statement")
    if reader.sees("EXPLAIN") or reader.peek().folded in _TRANSACTION:
        reader.refuse("This cannot be explained", expected="a query")
    inner = read(Reader(reader.whole, reader.rest_words(), reader.is_foreign))
    return Explain(text=text, place=place, analyze=analyze, format=shape, statement=inner)


def _explain_option(reader: Reader) -> tuple[str, str]:
    name = reader.one_of("FORMAT", "ANALYZE")
    if name == "FORMAT":
        word = reader.peek()
        chosen = word.value.upper() if word.is_name or word.kind is Kind.STRING else ""
        if chosen not in _FORMATS:
            reader.refuse(expected=_FORMATS)
        reader.take()
        return name, chosen
    return name, reader.one_of("TRUE", "FALSE") if reader.peek().folded in ("TRUE", "FALSE") else "TRUE"


_READERS: Mapping[str, Callable[[Reader], Statement]] = {
    "WITH": _with,
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "TRUNCATE": _truncate,
    "REFRESH": _refresh,
    "OPTIMIZE": _optimize,
    "CANCEL": _ask_job,
    "PAUSE": _ask_job,
    "RESUME": _ask_job,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SHOW": _show,
    "EXPLAIN": _explain,
}
