"""What `apply` costs beside a plain loop over the same record batches with the same Function, in the same process.

Prints one line a case: the loop's time, apply's with one warm worker (and with two), and their ratios; medians of
several rounds, the sides taking turns. Nothing is written: this measures the way to the worker and back.
"""

# ruff: noqa: E402 - variables must be set before numpy is imported
from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

# Before numpy is imported, here and in the workers: both sides get one thread for linear algebra.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql.apply import ApplyOptions, InputBatch, SilentWatch, apply
from lancegpu_sql.functions.loading import load
from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.signature import signature_of
from lancegpu_sql.placement import LocalPlacement
from lancegpu_sql.workers import FunctionLoad, WorkerNeed, WorkerPool

BATCH_ROWS = 65_536
VECTOR = pa.list_(pa.float32(), 384)


def letters(text: pa.StringArray) -> pa.Int64Array:
    """A cheap batch Function."""
    return pc.cast(pc.utf8_length(text), pa.int64())


class Embed:
    """A matmul: 64 numbers of a text's hash times a matrix, 384 floats a row."""

    def __init__(self, layers: int = 1) -> None:
        self.weights = np.random.default_rng(0).standard_normal((64, 384), dtype=np.float32)
        self.square = np.random.default_rng(1).standard_normal((384, 384), dtype=np.float32)
        self.layers = layers

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the vectors."""
        lengths = pc.utf8_length(batch.column(0)).to_numpy(zero_copy_only=False).astype(np.float32)
        rows = np.outer(lengths, np.arange(64, dtype=np.float32)) % 7
        vectors = rows @ self.weights
        for _ in range(self.layers):
            vectors = np.tanh(vectors @ self.square)
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 384)


class Ready:
    """Vectors that stand ready: what is left is the way back."""

    def __init__(self) -> None:
        self.vectors = pa.FixedSizeListArray.from_arrays(
            pa.array(np.random.default_rng(0).standard_normal(BATCH_ROWS * 384, dtype=np.float32)), 384
        )

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the vectors."""
        return self.vectors.slice(0, batch.num_rows)


@dataclass(frozen=True)
class Case:
    """A Function, its types, and the rows to give it."""

    name: str
    target: object
    output: pa.DataType
    rows: int
    bound: dict[str, int]


CASES = (
    Case("1,000,000 texts of 50 bytes to int64", letters, pa.int64(), 1_000_000, {}),
    Case("200,000 texts to 384 floats, not computed", Ready, VECTOR, 200_000, {}),
    Case("200,000 texts to 384 floats, light", Embed, VECTOR, 200_000, {"layers": 0}),
    Case("200,000 texts to 384 floats, matmul", Embed, VECTOR, 200_000, {"layers": 1}),
)


def batches(rows: int) -> list[pa.RecordBatch]:
    """Return texts of 50 bytes in batches as a scan gives them."""
    whole = pa.array([f"{number:050d}" for number in range(rows)])
    return [pa.record_batch([whole.slice(start, BATCH_ROWS)], names=["text"]) for start in range(0, rows, BATCH_ROWS)]


def inputs(data: list[pa.RecordBatch]) -> Iterator[InputBatch]:
    """Wrap batches as apply wants them."""
    first = 0
    for batch in data:
        ids = pa.array(np.arange(first, first + batch.num_rows, dtype=np.uint64))
        yield InputBatch(batch, ids, pa.record_batch([ids], names=["id"]))
        first += batch.num_rows


def measure(case: Case, placement: LocalPlacement, rounds: int) -> str:
    """Run one case and return its line."""
    schemas = pa.schema([("text", pa.utf8())]), pa.schema([("value", case.output)])
    payload = pack(case.target, signature_of(case.target, *schemas))
    data = batches(case.rows)
    here = load(payload, case.bound)
    need = WorkerNeed(
        FunctionLoad(case.name, 1, case.name, payload, case.bound, str(case.output)),
        None,
        0,
        1,
        {},
        "benchmark",
        "benchmark",
    )
    pool = WorkerPool(placement, worker_idle_seconds=60)
    no_one = threading.Event()
    leases = [pool.lease(need, lambda _: None, no_one) for _ in range(2)]
    for lease in leases:
        lease.release()
    seconds: dict[str, list[float]] = {"loop": [], "one": [], "two": []}
    owner: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter()
        for batch in data:
            here.call(batch)
        seconds["loop"].append(time.perf_counter() - started)
        for workers, name in ((1, "one"), (2, "two")):
            started, cpu = time.perf_counter(), time.process_time()
            options = ApplyOptions(max_workers=workers)
            total = 0
            for computed in apply(inputs(data), need, pool, options, watch=SilentWatch(), cancelled=no_one):
                total += len(computed.values)
            seconds[name].append(time.perf_counter() - started)
            if workers == 1:
                owner.append(time.process_time() - cpu)
            assert total == case.rows
    pool.close()
    result_bytes = case.rows * (case.output.bit_width // 8 if case.output != VECTOR else 384 * 4)
    loop, one, two = (statistics.median(seconds[name]) for name in ("loop", "one", "two"))
    return (
        f"{case.name} ({result_bytes / one / 1e9:.2f} GB/s back): loop {loop:.3f} s; apply, one worker {one:.3f} s ({one / loop:.2f} x, +{one - loop:.3f} s, "
        f"owner's CPU {statistics.median(owner):.3f} s); two workers {two:.3f} s ({two / loop:.2f} x)"
    )


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        placement = LocalPlacement(folder)
        for case in CASES:
            print(measure(case, placement, rounds), flush=True)
        placement.close()


if __name__ == "__main__":
    main()
