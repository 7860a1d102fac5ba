"""A view's incremental refresh beside its full one, in one run: 1 % of the source rows are changed in between.

The view is row by row: one Function over a text column, computed by a worker. What changes is updated, deleted and added.
`--what` chooses the query; `again` is one that runs again, whose Function results are found.

Run with `make bench`, or `python benchmarks/view_refresh.py [--rows 1000000] [--rounds 3]`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import function
from lancegpu_sql.database import Database
from lancegpu_sql.refresh.request import RefreshResult

QUERIES = {
    "rows": "SELECT id, normal(text) AS text FROM docs WHERE id >= 0",
    "again": "SELECT lang, normal(text) AS text, count(*) AS docs FROM docs GROUP BY ALL",
}


@function
def normal(text: str) -> str:
    return " ".join(text.lower().split())


def texts(rows: range, seed: int) -> pa.Table:
    """Texts of about 80 bytes, each another one."""
    words = np.random.default_rng(seed).integers(0, 1 << 62, (len(rows), 4)).astype("U19")
    lines = [f"{a} The {b} Of {c} And {d}" for a, b, c, d in words]
    ids = pa.array(np.arange(rows.start, rows.stop))
    return pa.table({"id": ids, "text": lines, "lang": pa.array(np.arange(len(rows)) % 7)})


def changed(db: Database, rows: int, seed: int) -> None:
    """Change 1 % of the table: 0.8 % updated, 0.1 % deleted, 0.1 % added."""
    table = db.open_table("docs")
    modulus = 1000
    start = seed * 9 % modulus
    updated = " OR ".join(f"id % {modulus} = {(start + at) % modulus}" for at in range(8))
    table.update(updated, values_sql={"text": f"concat(text, ' changed {seed}')"})
    table.delete(f"id % {modulus} = {(start + 8) % modulus}")
    table.add(texts(range(rows * (seed + 2), rows * (seed + 2) + rows // modulus), seed + 1))


def main() -> None:
    """Measure the queries asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--what", choices=list(QUERIES), nargs="*", default=list(QUERIES))
    asked = parser.parse_args()
    for what in asked.what:
        with tempfile.TemporaryDirectory(prefix="lg-bench-") as folder:
            measure(Path(folder), what, asked.rows, asked.rounds)


def measure(folder: Path, what: str, rows: int, rounds: int) -> None:
    """Measure one query."""
    with lg.connect(folder / "db", progress="quiet", runtime_folder=folder / "run") as db:
        db.create_function(normal)
        db.create_table("docs", texts(range(rows), 0))
        db.sql("SELECT normal('a worker that is there')").fetchall()
        view = db.create_materialized_view("v", QUERIES[what], with_no_data=True)
        full, first = timed(view.refresh)
        times = []
        for seed in range(rounds):
            changed(db, rows, seed)
            seconds, result = timed(view.refresh)
            times.append(seconds)
        unchanged, _ = timed(view.refresh)
        some = statistics.median(times)
        bar = full * 0.05 + 0.5
        print(f"\n{what}: {QUERIES[what]}")
        print(f"  full, {rows:,} rows: {full:.3f} s ({first.calls_made:,} calls)")
        told = f"{result.mode}, {result.rows_assigned:,} rows written, {result.calls_made:,} calls"
        meant = f"   bar: ≤ 5 % of the full one plus 0.5 s = {bar:.3f} s" if what == "rows" else "   bar: none"
        print(f"  after 1 % changed: {some:.3f} s, of {min(times):.3f}–{max(times):.3f} ({told}){meant}")
        print(f"  nothing changed: {unchanged:.3f} s")


def timed(work: Callable[[], RefreshResult]) -> tuple[float, RefreshResult]:
    """Return how long a refresh took, and what it did."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main()
