"""What the word under the cursor may become: tables, columns, Functions and keywords. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from lancegpu_sql.cli.shell import commands
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.statements.jobs import SHOWN
from lancegpu_sql.sql.statements.scanner import Kind, Word, words_of

_KEYWORDS = re.findall(
    r"[A-Z]+",
    """
    ADD ALL ALTER AND ANALYZE AS ASC AT BETWEEN BY CANCEL CASE CAST CLASSES COLUMN COLUMNS COPY CREATE CROSS DELETE DESC
    DESCRIBE DISABLE DISTINCT DROP ELSE ENABLE END ERRORS EVENTS EVERY EXCEPT EXISTS EXPLAIN FALSE FILTER FOR FORMAT FROM FULL
    FUNCTION FUNCTIONS GPU GROUP HAVING IF IN INNER INSERT INTERSECT INTERVAL INTO IS JOB JOBS JOIN LANGUAGE LATERAL LEFT LIKE
    LIMIT MACRO MATCHED MATERIALIZED MERGE NOT NULL OFFSET ON OPTIMIZE OR ORDER OVER PARTITION PAUSE PIVOT PRAGMA QUALIFY
    RECURSIVE REFRESH RENAME REPLACE RESUME RETURNS RIGHT SCHEDULE SCHEDULES SELECT SET SHOW STATUS SUMMARIZE TABLE TABLES TEMP
    THEN TO TRUE TRUNCATE TRY TYPE UNION UNNEST UNPIVOT UPDATE USING VALUES VERSION VIEW VIEWS WHEN WHERE WINDOW WITH
    """,
)
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "INTO", "TABLE", "UPDATE", "DESCRIBE", "USING", "SUMMARIZE"})
_NOT_ALIASES = frozenset(_KEYWORDS)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPED = re.compile(r"[A-Za-z0-9_$\x80-\U0010ffff]*\Z")


class Names(Protocol):
    """What the database has."""

    def tables(self) -> Sequence[str]:
        """Return the names of tables and views."""

    def functions(self) -> Sequence[str]:
        """Return the names of Functions."""

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table; none where there is no such table."""

    def options(self, statement: str) -> Sequence[str]:
        """Return what WITH may say in a statement that begins with these words; none of another one."""


def completions(before: str, after: str, names: Names) -> tuple[str, list[str]]:
    """Return what is typed of the word that the cursor stands behind, and what that may become, likely ones first.

    Parameters
    ----------
    before, after
        The text before and behind the cursor.
    """
    if before.lstrip().startswith("\\"):
        return _of_command(before.lstrip(), names)
    matched = _TYPED.search(before)
    typed = "" if matched is None else matched[0]
    try:
        words = words_of(before[: len(before) - len(typed)])[:-1]
    except InvalidInput:
        return typed, []  # inside of a string or a comment
    return typed, list(_distinct(_fitting(typed, _candidates(words, typed, _all_words(before, after), names))))


def _of_command(before: str, names: Names) -> tuple[str, list[str]]:
    name, space, given = before.partition(" ")
    if not space:
        return name, [each for each in commands.NAMES if each.startswith(name)]
    return given, list(_fitting(given, _written(names.tables()))) if name == "\\d" else []


def _candidates(words: Sequence[Word], typed: str, whole: Sequence[Word], names: Names) -> Iterator[str]:
    last = words[-1] if words else None
    if last is not None and last.value == "." and len(words) > 1:
        tables = _tables_in(whole, names.tables())
        meant = tables.get(fold(words[-2].value))
        yield from _written(names.columns(meant) if meant else ())
        return
    if last is not None and last.folded in _BEFORE_TABLES:
        yield from _written(names.tables())
        return
    alone = _only(words, whole, names)
    if alone is not None:
        yield from alone
        return
    for table in dict.fromkeys(_tables_in(whole, names.tables()).values()):
        yield from _written(names.columns(table))
    yield from (f"{name}(" for name in _written(names.functions()))
    if words:
        yield from _written(names.tables())
    if typed:
        lower = typed == typed.lower()
        yield from (word.lower() if lower else word for word in _KEYWORDS)


def _only(words: Sequence[Word], whole: Sequence[Word], names: Names) -> list[str] | None:
    """What alone may stand here: what can be shown, a Function or a column that a statement names, an option."""
    ends = [at for at, word in enumerate(words) if word.kind is Kind.SIGN and word.value == ";"]
    own = words[ends[-1] + 1 :] if ends else words
    if not own:
        return None
    said = [word.folded for word in own]
    if said == ["SHOW"]:
        return [each.lower() if own[0].value.islower() else each for each in SHOWN]
    if said[-1] == "FUNCTION" and len(said) > 1:
        return _written(names.functions())
    if said[0] == "REFRESH" and said[-1] == "ON":
        return _written(names.tables())
    if said[-1] == "COLUMN" and said[0] in ("REFRESH", "ALTER"):
        tables = dict.fromkeys(_tables_in(whole, names.tables()).values())
        return [column for table in tables for column in _written(names.columns(table))]
    return _options(own, names) if own[-1].value in ("(", ",") else None


def _options(words: Sequence[Word], names: Names) -> list[str] | None:
    """The options that may come next, where the cursor stands in the brackets of WITH."""
    opened = [at for at, word in enumerate(words[:-1]) if word.folded == "WITH" and words[at + 1].value == "("]
    if not opened or any(word.value == ")" for word in words[opened[-1] :]):
        return None
    first = [word.folded for word in words[:4] if word.folded not in ("OR", "REPLACE")]
    known = names.options(" ".join(first[:2]))
    given = {fold(word.value) for word in words[opened[-1] :] if word.is_name}
    return [f"{name} = " for name in known if name not in given] or None


def _tables_in(words: Sequence[Word], tables: Iterable[str]) -> dict[str, str]:
    """The tables that a text names, by what it calls them: their names and aliases."""
    known = {fold(name): name for name in tables}
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        table = known.get(fold(word.value)) if word.is_name else None
        if table is None or (at and words[at - 1].value == "."):
            continue
        found[fold(word.value)] = table
        rest = [each for each in words[at + 1 : at + 3] if each.folded != "AS"]
        if rest and rest[0].is_name and rest[0].folded not in _NOT_ALIASES:
            found[fold(rest[0].value)] = table
    return found


def _all_words(before: str, after: str) -> Sequence[Word]:
    """The words of the statement around the cursor, as far as they can be read."""
    for text in (before + after, before):
        try:
            words = words_of(text)
        except InvalidInput:
            continue
        starts = [
            word.end for word in words if word.value == ";" and word.kind is Kind.SIGN and word.end <= len(before)
        ]
        return [word for word in words[:-1] if not starts or word.start >= starts[-1]]
    return ()


def _written(names: Iterable[str]) -> list[str]:
    return [name if _PLAIN.fullmatch(name) else quote(name) for name in names]


def _fitting(typed: str, candidates: Iterable[str]) -> Iterator[str]:
    return (each for each in candidates if fold(each.lstrip('"')).startswith(fold(typed)))


def _distinct(candidates: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(candidates))
