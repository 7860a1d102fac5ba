"""Calls, and what one worker holds of them."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

import pyarrow as pa

from lancegpu_sql.apply.batches import InputBatch, RowFailure
from lancegpu_sql.apply.watch import WorkerTimings
from lancegpu_sql.errors import LanceGpuError


@dataclass(eq=False)
class Call:
    """Rows on their way. `id` names it to workers; `start`, the number of its first row, gives it its place.

    One that was with a lost worker is a suspect: it goes to the next worker alone, so that a second loss can be blamed
    for sure. (A worker that dies takes replies with it that were on their way.) `losses` are those that it may be blamed
    for, `deaths` all that its rows took part in. `tries` and `device_failures` count failures of just these rows,
    `failed_on` is where the latter were. One that is `over_time` goes down with its worker. `seconds` is what computing
    its values took.
    """

    id: int
    start: int
    part: int
    rows: InputBatch
    closes_part: bool
    argument_bytes: int
    weight_bytes: int
    losses: int = 0
    deaths: int = 0
    suspect: bool = False
    tries: int = 0
    device_failures: int = 0
    failed_on: frozenset[str] = frozenset()
    over_time: bool = False
    begun_at: float | None = None
    values: pa.Array | None = None
    seconds: float = 0.0
    failed: RowFailure | None = None
    error: LanceGpuError | None = None

    @property
    def done(self) -> bool:
        """Whether it needs no worker any more."""
        return self.values is not None or self.error is not None

    def __lt__(self, other: Call) -> bool:
        return self.start < other.start

    def piece(self, call_id: int, offset: int, rows: int) -> Call:
        """Return some of its rows as a call of their own, which ends no part and inherits what is known against them."""
        taken = self.rows.slice(offset, rows)
        argument_bytes = taken.arguments.nbytes
        share = self.weight_bytes * rows // self.rows.rows
        return Call(
            id=call_id,
            start=self.start + offset,
            part=self.part,
            rows=taken,
            closes_part=False,
            argument_bytes=argument_bytes,
            weight_bytes=share,
            deaths=self.deaths,
        )


@dataclass(eq=False)
class Hand:
    """What one leased worker holds, and how its time was spent.

    `calls` stand in the order in which they were sent; the worker computes the first `at_once` of them. `places` are where
    its `devices` are, as a placement can keep off them; `spoiled` says why it is good for nothing any
    more, `fits_rows` are the most rows of one call for which its memory is known to do. `rows_per_second_before` is what it
    did in earlier work.
    """

    worker: str
    stays: bool
    at_once: int = 1
    gpu_class: str | None = None
    places: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    calls: dict[int, Call] = field(default_factory=dict)
    argument_bytes: int = 0
    joined_at: float = field(default_factory=time.monotonic)
    heard_at: float = field(default_factory=time.monotonic)
    empty_since: float | None = field(default_factory=time.monotonic)
    calls_done: int = 0
    rows_done: int = 0
    computing_seconds: float = 0.0
    waiting_for_rows_seconds: float = 0.0
    lost: bool = False
    leaving: bool = False
    spoiled: str | None = None
    fits_rows: int | None = None
    rows_per_second_before: float | None = None

    def running(self, now: float) -> tuple[Call, ...]:
        """Return the calls that the worker computes; those that have come to be among them begin now."""
        running = tuple(itertools.islice(self.calls.values(), self.at_once))
        for call in running:
            if call.begun_at is None:
                call.begun_at = now
        return running

    def timings(self, starting_seconds: float, now: float) -> WorkerTimings:
        """Say how the worker spent its time until `now`."""
        idle_seconds = now - self.joined_at - self.computing_seconds - self.waiting_for_rows_seconds
        return WorkerTimings(
            worker=self.worker,
            starting_seconds=starting_seconds,
            computing_seconds=self.computing_seconds,
            waiting_for_rows_seconds=self.waiting_for_rows_seconds,
            idle_seconds=max(0.0, idle_seconds),
            calls=self.calls_done,
            gpu_class=self.gpu_class,
        )
