"""A Function that gives several values at once: a struct, spread over columns that are filled together."""

from __future__ import annotations

import tempfile
from typing import NamedTuple

import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import col, function


class Measured(NamedTuple):
    words: int
    longest: str | None


@function
def measure(text: str) -> Measured:
    """Count a text's words and find the longest."""
    words = text.split()
    return Measured(len(words), max(words, key=len, default=None))


with tempfile.TemporaryDirectory() as folder, lg.connect(folder) as db:
    notes = db.create_table("notes", pa.table({"text": ["a short note", "an extraordinary one", ""]}))
    notes.add_columns(measure(text=col("text")).rename({"words": "word_count"}))  # no name given: a column each
    notes.refresh_column("word_count")  # fills `longest`, too: the Function is called once per row
    print(db.sql("SELECT text, word_count, longest FROM notes").fetchall())

    notes.update(where="text = ''", values={"text": "now with words"})
    print(notes.refresh_column("longest").rows_assigned, "row changed, and was computed")
