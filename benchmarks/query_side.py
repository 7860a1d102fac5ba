"""One side of `query_speed.py`, in a process of its own.

`cold` does the work once: the parent times the whole process. `warm` does it five times, then times further ones, which compute
all values anew.
Both print what they measured as JSON.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import argparse  # noqa: E402 - the time before the imports is measured
import json  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

SHARE = 5  # of the texts, one in so many is embedded
WARM_UP = 4

# {f} is the Function.
QUERIES = {
    "normalise": "SELECT sum(length({f}(text))) FROM texts",
    "tidy": "SELECT sum(length({f}(text))) FROM texts",
    "length": "SELECT sum({f}(text)) FROM texts",
    "embed": "SELECT sum({f}(text)[7]) FROM texts WHERE id % 5 = 0",
    "embed_subwords": "SELECT sum({f}(text)[7]) FROM texts WHERE id % 5 = 0",
    "first_row": "SELECT {f}(text) FROM texts LIMIT 10",
    "plain": "SELECT count(*), sum(length(text)), max(id) FROM texts WHERE id % 7 = 3",
}
FUNCTIONS = {
    "normalise": "bench_normalise",
    "tidy": "bench_tidy",
    "length": "bench_length",
    "embed": "bench_embed",
    "embed_subwords": "bench_embed_subwords",
    "first_row": "bench_normalise",
}


def make(folder: Path, rows: int) -> None:
    """Make the table of texts, and register the Functions."""
    import functions_under_test as under_test
    import numpy as np
    import pyarrow as pa

    import lancegpu_sql as lg

    words = ["alpha", "Beta", "gamma", "", "Delta", "quick", "Brown", "fox", "jumps", "over", "LAZY", "dog", "lorem"]
    picks = np.random.default_rng(0).integers(0, len(words), (rows, 8))
    texts = [" ".join(words[at] for at in row) + f" {number}" for number, row in enumerate(picks.tolist())]
    with lg.connect(folder) as db:
        db.create_table("texts", pa.table({"id": pa.array(range(rows), pa.int64()), "text": texts}))
        for function in (
            under_test.length,
            under_test.normalise,
            under_test.tidy,
            under_test.Embed,
            under_test.EmbedSubwords,
        ):
            db.create_function(function)


def query(case: str) -> str:
    """Return the query of a case."""
    return QUERIES[case].format(f=FUNCTIONS.get(case))


def duckdb_side(folder: Path, case: str, threads: int = 0) -> Callable[[str], Any]:
    """Return what runs a query as a user of DuckDB would, on as many threads as it likes or on so many."""
    import duckdb
    import lance

    connection = duckdb.connect(config={"threads": threads} if threads else {})
    connection.register("texts", lance.dataset(str(folder / "texts.lance")))
    if case in FUNCTIONS:
        import functions_under_test as under_test

        targets = {
            "bench_length": (under_test.length, "INTEGER"),
            "bench_normalise": (under_test.normalise, "VARCHAR"),
            "bench_tidy": (under_test.tidy, "VARCHAR"),
            "bench_embed": (under_test.Embed, "FLOAT[384]"),
            "bench_embed_subwords": (under_test.EmbedSubwords, "FLOAT[384]"),
        }
        decorated, output = targets[FUNCTIONS[case]]
        target = decorated.target() if isinstance(decorated.target, type) else decorated.target
        connection.create_function(
            FUNCTIONS[case], lambda column: target(_one(column)), ["VARCHAR"], output, type="arrow"
        )
    return lambda text: connection.sql(text).fetchall()


def _one(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def our_side(folder: Path, workers: int) -> Callable[[str], Any]:
    """Return what runs a query by `db.sql`."""
    import lancegpu_sql as lg

    db = lg.connect(folder, progress="quiet", max_workers=workers)
    return lambda text: db.sql(text).fetchall()


def measured(run: Callable[[str], Any], case: str, *, cold: bool) -> dict[str, float]:
    """Run a query; in a warm process, further ones."""
    run(query(case))
    found = {"first_row": time.perf_counter() - STARTED}
    if not cold:
        for _ in range(WARM_UP):  # a worker beyond the first is started once queries have gone on for a while
            run(query(case))
        seconds = []
        for _ in range(3 if case in FUNCTIONS else 15):
            started = time.perf_counter()
            run(query(case))
            seconds.append(time.perf_counter() - started)
        found = {"warm": statistics.median(seconds)}
    return found | {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["make", "duckdb", "ours"])
    parser.add_argument("mode", choices=["cold", "warm"])
    parser.add_argument("case")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    asked = parser.parse_args()
    if asked.side == "make":
        make(asked.folder, asked.rows)
        found: dict[str, float] = {}
    else:
        side = (
            duckdb_side(asked.folder, asked.case, asked.threads)
            if asked.side == "duckdb"
            else our_side(asked.folder, asked.workers)
        )
        found = measured(side, asked.case, cold=asked.mode == "cold")
    print(json.dumps(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
