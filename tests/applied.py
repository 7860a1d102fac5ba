"""What tests of workers and of apply share: needs, inputs, a watch that remembers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lancegpu_sql.apply import ApplyOptions, Computed, InputBatch, WorkerTimings, apply
from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.signature import signature_of
from lancegpu_sql.placement import GpuClass, PlacementEvent
from lancegpu_sql.workers import FunctionLoad, WorkerNeed, WorkerPool

NO_ONE = threading.Event()
"""Is never set."""


def need_for(
    target: Callable[..., Any],
    *,
    output: pa.DataType | None = None,
    bound: dict[str, Any] | None = None,
    concurrency: int = 1,
    init_timeout_seconds: float | None = 60.0,
    gpu_class: GpuClass | None = None,
) -> WorkerNeed:
    """Return the need for a worker that has `target` loaded."""
    signature = signature_of(target, None, None if output is None else pa.schema([("value", output)]))
    name = target.__name__
    load = FunctionLoad(
        function=name,
        version=1,
        digest=name,
        payload=pack(target, signature),
        bound=bound or {},
        output_type=str(signature.output_type),
        concurrency=concurrency,
        init_timeout_seconds=init_timeout_seconds,
    )
    return WorkerNeed(load, gpu_class, 1 if gpu_class else 0, 1, {}, "job-1", "a test")


def numbers(values: Any) -> pa.RecordBatch:
    """Return one column of int64."""
    return pa.record_batch([pa.array(values, pa.int64())], names=["number"])


def input_batch(values: Any, first_row_id: int = 0) -> InputBatch:
    """Return rows with ids that count up, and the same ids as tag."""
    batch = numbers(values)
    ids = pa.array(np.arange(first_row_id, first_row_id + batch.num_rows, dtype=np.uint64))
    return InputBatch(batch, ids, pa.record_batch([ids], names=["id"]))


def counting(rows: int, batch_rows: int = 1000) -> Iterator[InputBatch]:
    """Yield the numbers from 0 on; a row's id is its number."""
    for start in range(0, rows, batch_rows):
        yield input_batch(np.arange(start, min(start + batch_rows, rows)), start)


@dataclass
class Remembering:
    """A watch that keeps what it is told."""

    placements: list[PlacementEvent] = field(default_factory=list)
    calls: list[tuple[int, float, str]] = field(default_factory=list)
    timings: dict[str, WorkerTimings] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)

    def placement_event(self, event: PlacementEvent) -> None:
        """Keep it."""
        self.placements.append(event)

    def call_done(self, rows: int, seconds: float, worker: str) -> None:
        """Keep it."""
        self.calls.append((rows, seconds, worker))

    def worker_timings(self, timings: WorkerTimings) -> None:
        """Keep the latest."""
        self.timings[timings.worker] = timings

    def log(self, line: str) -> None:
        """Keep it."""
        self.lines.append(line)

    def event(self, kind: str, message: str) -> None:
        """Keep it."""
        self.events.append((kind, message))


def run(
    need: WorkerNeed,
    pool: WorkerPool,
    inputs: Iterator[InputBatch],
    *,
    watch: Remembering | None = None,
    cancelled: threading.Event = NO_ONE,
    rows_left: Callable[[], int | None] = lambda: None,
    **options: Any,
) -> Iterator[Computed]:
    """Apply with options by name."""
    watch = watch or Remembering()
    how = ApplyOptions(**options)
    return apply(inputs, need, pool, how, watch=watch, cancelled=cancelled, rows_left=rows_left)


def values_of(computed: Iterator[Computed]) -> list[Any]:
    """Return all values in the order in which they came."""
    return [value for piece in computed for value in piece.values.to_pylist()]
