"""What every statement has; queries, and what belongs to DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.places import Place

Name = tuple[str, ...]
"""A name with those before it: ``main.t`` is ``("main", "t")``."""
Value = bool | int | float | str | None


@dataclass(frozen=True)
class Option:
    """One of WITH (name = value, …); `position` is where its name stands in the whole text."""

    name: str
    value: Value
    position: int


Options = tuple[Option, ...]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement: as written, and where it begins in the text it was found in."""

    text: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    """Something that gives rows and changes nothing: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE."""


@dataclass(frozen=True, kw_only=True)
class Engine(Statement):
    """A statement of DuckDB's own, for the session: SET, PRAGMA, COPY, CREATE TEMP TABLE, CREATE MACRO, ATTACH."""


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] of another statement; `format` is ``text`` unless it says another one."""

    analyze: bool
    format: str
    statement: Statement


@dataclass(frozen=True, kw_only=True)
class Transaction(Statement):
    """BEGIN, COMMIT or ROLLBACK, which have no meaning here."""
