"""Which few rows a condition on row ids can be about, told by the condition itself or by the ids alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from lancegpu_sql.tables.naming import ROW_ID

_MOST_IDS = 1_000
"""To look a row up takes as long as to read some 50: 1.7 microseconds and 0.03 where a row is two numbers and a short text."""

# How Arrow writes a condition: its conjuncts in brackets, functions with their names before them, texts in quotes.
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_NOT_CONJUNCTS = re.compile(r"\w\(| or ")
_IS = re.compile(rf"(?:^|\(| and )\({ROW_ID} == ([\d,\s]+)\)(?=$|\)| and )")
# As DuckDB makes it of IN. Of a long list Arrow writes a part only, with dots in it.
_IN = re.compile(
    rf"if_else\(is_valid\({ROW_ID}\), is_in\({ROW_ID}, {{value_set=uint64:\[([\d,\s]+)\], "
    r"null_matching_behavior=\w+}\), null\[bool\]\)"
)


def ids_meant(
    condition: Any, columns: Iterable[str], row_ids: Callable[[], pa.RecordBatchReader] | None = None
) -> list[int] | None:
    """Return row ids of which one is that of each row that satisfies a condition; None where they are not few, or not told.

    Parameters
    ----------
    condition
        Arrow's.
    columns
        The names it may hold.
    row_ids
        Reads the ids of all rows, where the condition is about nothing else.
    """
    said = str(condition)
    if all(name.isidentifier() for name in columns if name in said):
        said = _IN.sub(rf"({ROW_ID} == \1)", _TEXT.sub('""', said))
        found = None if _NOT_CONJUNCTS.search(said) else _IS.search(said)
        if found:
            return [int(each) for each in found[1].split(",")]
    if row_ids is None:
        return None
    ids: list[int] = []
    for batch in pa.dataset.Scanner.from_batches(row_ids(), columns=[ROW_ID], filter=condition).to_batches():
        if len(ids) + batch.num_rows > _MOST_IDS:
            return None
        ids += batch.column(0).to_pylist()
    return ids
