"""A chunker: one row in, a list of pieces out, and a table of pieces from it by SQL."""

from __future__ import annotations

import tempfile

import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import col, function


@function
def chunks(text: str) -> list[str]:
    """Cut a text into pieces of three words that overlap by one."""
    words = text.split()
    return [" ".join(words[start : start + 3]) for start in range(0, max(len(words) - 1, 1), 2)]


STORIES = ["one two three four five", "alone", None]

with tempfile.TemporaryDirectory() as folder, lg.connect(folder) as db:
    stories = db.create_table("stories", pa.table({"id": [1, 2, 3], "text": STORIES}))
    stories.add_columns({"chunks": chunks(text=col("text"))})
    stories.refresh_column("chunks")  # the third text is a null: `chunks` is not called for it, and gives a null

    pieces = db.sql("SELECT id, unnest(chunks) AS chunk FROM stories ORDER BY id")
    db.create_table("pieces", pieces.to_reader())
    print(db.sql("SELECT id, count(*) AS pieces, min(chunk) FROM pieces GROUP BY id ORDER BY id").fetchall())
