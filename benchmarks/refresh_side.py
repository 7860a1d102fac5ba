"""One side of `refresh_speed.py`, in a process of its own.

`cold` does the work once and ends: the parent times the whole process. `warm` does it twice and prints, as JSON, the
seconds of the second time.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

BATCH_ROWS = 65_536


def make(folder: Path, rows: int) -> None:
    """Make the table of texts, and a copy for Lance's side."""
    import lance
    import numpy as np
    import pyarrow as pa

    import lancegpu_sql as lg

    words = ["alpha", "Beta", "gamma", "", "Delta", "quick", "Brown", "fox", "jumps", "over", "LAZY", "dog", "lorem"]
    picks = np.random.default_rng(0).integers(0, len(words), (rows, 8))
    texts = [" ".join(words[at] for at in row) + f" {number}" for number, row in enumerate(picks.tolist())]
    data = pa.table({"id": pa.array(range(rows), pa.int64()), "text": texts})
    with lg.connect(folder) as db:
        db.create_table("texts", data)
    lance.write_dataset(data, str(folder / "copy.lance"))


def decorated(case: str) -> Any:
    """Return the case's Function."""
    import functions_under_test as under_test

    return {"length": under_test.length, "normalise": under_test.normalise, "embed": under_test.Embed}[case]


def plain(case: str) -> Callable[..., Any]:
    """Return the case's Function as a plain callable."""
    target = decorated(case).target
    return target() if isinstance(target, type) else target


def loop(folder: Path, call: Callable[..., Any]) -> None:
    """(a): read, call, write, in one thread."""
    import lance
    import pyarrow as pa

    dataset = lance.dataset(str(folder / "texts.lance"))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in dataset.scanner(columns=["text"], batch_size=BATCH_ROWS).to_batches():
            yield pa.record_batch([call(batch.column(0))], names=["value"])

    schema = pa.schema([("value", pa.array(call(pa.array(["probe"]))).type)])
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    lance.write_dataset(reader, str(folder / "loop.lance"), mode="overwrite")


def lance_add_columns(folder: Path, call: Callable[..., Any], column: str) -> None:
    """(b): Lance's own way."""
    import lance
    import pyarrow as pa

    kind = pa.array(call(pa.array(["probe"]))).type

    @lance.batch_udf(output_schema=pa.schema([pa.field(column, kind)]))
    def udf(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([call(batch.column("text"))], names=[column])

    dataset = lance.dataset(str(folder / "copy.lance"))
    dataset.add_columns(udf, read_columns=["text"], batch_size=BATCH_ROWS)


def timed(work: Callable[[], Any]) -> float:
    """Return how long a call takes, in seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def declare(folder: Path, case: str, columns: list[str]) -> None:
    """Declare columns, so that what is timed is their refresh alone."""
    import lancegpu_sql as lg
    from lancegpu_sql import col

    with lg.connect(folder) as db:
        for column in columns:
            db.open_table("texts").add_columns({column: decorated(case)(text=col("text"))})


def refresh_cold(folder: Path, column: str, workers: int) -> None:
    """One refresh, in a process that did nothing before."""
    import lancegpu_sql as lg

    with lg.connect(folder, progress="quiet") as db:
        db.open_table("texts").refresh_column(column, max_workers=workers)


def refresh_warm(folder: Path, columns: list[str], workers: int) -> dict[str, float]:
    """A second refresh, one with nothing changed, one with 1 % of the rows changed; the table is put back."""
    import lancegpu_sql as lg

    with lg.connect(folder, progress="quiet") as db:
        table = db.open_table("texts")
        table.refresh_column(columns[0], max_workers=workers)
        measured = {
            name: timed(lambda: table.refresh_column(columns[1], max_workers=workers)) for name in ("warm", "unchanged")
        }
        measured["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        version = table.version
        table.update("id % 100 = 7", values_sql={"text": "concat(text, '!')"})
        measured["changed"] = timed(lambda: table.refresh_column(columns[1], max_workers=workers))
        table.restore(version)
    return measured


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["make", "declare", "loop", "lance", "ours"])
    parser.add_argument("mode", choices=["cold", "warm"])
    parser.add_argument("case")
    parser.add_argument("folder", type=Path)
    parser.add_argument("columns", nargs="*")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    if asked.side == "make":
        make(asked.folder, asked.rows)
    elif asked.side == "declare":
        declare(asked.folder, asked.case, asked.columns)
    elif asked.side == "ours" and asked.mode == "cold":
        refresh_cold(asked.folder, asked.columns[0], asked.workers)
    elif asked.side == "ours":
        print(json.dumps(refresh_warm(asked.folder, asked.columns, asked.workers)))
    else:
        call = plain(asked.case)
        works = {
            "loop": [lambda: loop(asked.folder, call)] * 2,
            "lance": [lambda name=name: lance_add_columns(asked.folder, call, name) for name in asked.columns],
        }[asked.side]
        seconds = [timed(work) for work in works[: 1 if asked.mode == "cold" else 2]]
        print(json.dumps({"warm": seconds[-1]}))


if __name__ == "__main__":
    main()
