"""Names in SQL: how they are quoted and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from lancegpu_sql.errors import InvalidQuery

_ASCII_FOLD = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def quote(identifier: str) -> str:
    """An identifier as SQL text that means exactly it, whatever characters it holds."""
    return exp.to_identifier(identifier, quoted=True).sql(dialect="duckdb")


def fold(identifier: str) -> str:
    """What DuckDB compares when it looks up a name: letters of ASCII without their case."""
    return identifier.translate(_ASCII_FOLD)


def choose(written: str, known: Iterable[str]) -> str | None:
    """Which of the known names a written one means: the same spelling, else the only one that differs in case.

    Raises
    ------
    InvalidQuery
        Several known names differ from it, and from each other, in case only.
    """
    alike: Sequence[str] = [name for name in known if fold(name) == fold(written)]
    if written in alike:
        return written
    if len(alike) > 1:
        raise InvalidQuery(
            f"{written!r} could be any of {', '.join(map(repr, sorted(alike)))}: write the name as one of them is spelled.",
            candidates=sorted(alike),
        )
    return alike[0] if alike else None
