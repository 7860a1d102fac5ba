"""A text as statements, cut at semicolons."""

from __future__ import annotations

from collections.abc import Callable

from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.statements.leading import read
from lancegpu_sql.sql.statements.model import Name, Statement
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind, Word, words_of


def split(text: str, is_foreign: Callable[[Name], bool] = lambda _name: False) -> list[Statement]:
    """Read a text as statements.

    Parameters
    ----------
    is_foreign
        Whether a table belongs to DuckDB, which may do more with it than is done with the database's. So does one that
        this text makes.

    Raises
    ------
    ParseError
        One of them is not understood; it says where, and what was expected.
    """
    found = []
    current: list[Word] = []
    made: set[str] = set()

    def belongs_to_duckdb(table: Name) -> bool:
        return fold(table[-1]) in made or is_foreign(table)

    for word in words_of(text):
        ends = word.kind is Kind.END or (word.kind is Kind.SIGN and word.value == ";")
        if not ends:
            current.append(word)
        elif current:
            words = [*current, Word(Kind.END, "", current[-1].end, current[-1].end)]
            found.append(read(Reader(text, words, belongs_to_duckdb)))
            made |= _temporary(Reader(text, words))
            current = []
    return found


def _temporary(reader: Reader) -> set[str]:
    """The folded name of the table that a statement makes for the session, or gives another name."""
    if reader.accept("ALTER", "TABLE"):
        while not (reader.ended or reader.accept("RENAME", "TO")):
            reader.take()
    elif reader.accept("CREATE"):
        reader.accept("OR", "REPLACE")
        if reader.take().folded not in ("TEMP", "TEMPORARY") or not reader.accept("TABLE"):
            return set()
        reader.accept("IF", "NOT", "EXISTS")
    return {fold(reader.peek().value)} if reader.at and reader.peek().is_name else set()
