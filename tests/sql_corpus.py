"""The corpus of statements, and texts that are nearly such statements."""

from __future__ import annotations

import random
from pathlib import Path

from lancegpu_sql.sql.statements import split

CORPUS = sorted((Path(__file__).parent / "unit" / "sql" / "statements" / "corpus").glob("*.sql"))
STATEMENTS = [statement.text for file in CORPUS for statement in split(file.read_text())]
PIECES = (
    *"'\"$();,.*[]{}<>=:?-/\\\n\t\0 é\u00a0\ud800",
    *("$$", "/*", "*/", "--", "->", ":=", "NOT", "NULL", "WITH", "AS", "CASE", "END", "FROM", "WHERE", "1e9", "0x", "E'", "99999999999999999999"),
)  # fmt: skip


def statements_of(name: str) -> list[str]:
    """The statements of one file of the corpus."""
    return [statement.text for file in CORPUS if file.stem == name for statement in split(file.read_text())]


def edited(text: str, chance: random.Random) -> str:
    """A text with some pieces left out, put in, doubled or swapped."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.choice((0, 1, 2, 8, 30)))
        match chance.randint(0, 3):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + chance.choice(PIECES) + text[start:]
            case 2:
                text = text[:end] + text[start:end] + text[end:]
            case _:
                other = chance.choice(STATEMENTS)
                cut = chance.randint(0, len(other))
                text = text[:start] + other[cut : cut + chance.randint(1, 40)] + text[end:]
    return text
