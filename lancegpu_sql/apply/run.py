"""`apply`: one Function over a stream of batches."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

from lancegpu_sql.apply.batches import Computed, InputBatch
from lancegpu_sql.apply.board import Board
from lancegpu_sql.apply.fleet import Fleet
from lancegpu_sql.apply.hand import Call
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.patience import Patience
from lancegpu_sql.apply.watch import ApplyWatch, OneAtATime
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.pool import WorkerPool

_LOOK_SECONDS = 0.1
"""How often a cancellation, a call over its time and a silent worker are looked for. All else is told at once."""


def apply(
    inputs: Iterator[InputBatch],
    need: WorkerNeed,
    pool: WorkerPool,
    options: ApplyOptions,
    *,
    watch: ApplyWatch,
    cancelled: threading.Event,
    rows_left: Callable[[], int | None] = lambda: None,
    grace_seconds: Callable[[], float] = lambda: 0.0,
) -> Iterator[Computed]:
    """Compute a Function over a stream of batches on leased workers; results come in the order of the input.

    Without input no worker is asked for. The first worker computes a probe; when the probe shows that the Function,
    not its input, takes the time, further ones are leased in the background. A call whose worker is lost is done by
    another one. A call that fails stops the work: results of the rows before it still come, then its error is raised,
    so that the error names the first failing row. A call of many rows whose Function raises is split until the row is
    found; with the error policy `skip` that row comes out as null, named in `Computed.failed`, and the work goes on.

    Memory: what has been read and not yet given back, arguments, tags and results together, is at most
    `options.outstanding_bytes` and one call for each worker, besides one input batch (or as many as make a call, where
    they are small). A call carries about `options.call_target_bytes`, or one row where a row is larger. Slices keep
    their input batch alive, so large input batches count whole.

    Parameters
    ----------
    inputs
        The rows. Pulled from other threads, by one at a time, and not ahead of what the bounds allow. It is not closed.
        A batch without rows says that more will take a while: what was read is sent at once, however few rows it is.
    need
        The Function and where it runs.
    pool
        Where workers are leased.
    options
        Bounds and targets.
    watch
        Told what happens.
    cancelled
        Ends the work within a tenth of a second; a call that runs is given a moment to finish, then its worker is
        killed.
    rows_left
        Returns how many rows may still come at most, those under way among them; None where that is not known. It keeps
        workers from being started for work that will be done before they serve.
    grace_seconds
        Returns, once `cancelled` is set, for how long from then on calls that run may still finish; what they give comes
        out before `Cancelled` is raised. Asked again and again: it may come to be 0.

    Yields
    ------
    Computed
        Rows in input order. The last of each part says so.

    Raises
    ------
    RowFailed, WrongResult, CallTimeout
        The Function is at fault.
    LoadFailed, LoadTimeout
        It could not be loaded.
    WorkerLost
        More than `options.max_worker_losses` workers ended over one call, or before they served.
    WaitedTooLong
        There was no room for the first worker within `options.max_wait_seconds`.
    Cancelled
        `cancelled` was set, or the pool was closed.
    """
    first = next(inputs, None)
    if first is None:
        return
    board = Board(itertools.chain((first,), inputs), need.load, options)
    del first
    own_class = None if need.gpu_class is None else need.gpu_class.name
    patience = Patience(options.max_wait_seconds, need.load.function, own_class)
    fleet = Fleet(board, need, pool, options, OneAtATime(watch, patience), rows_left)
    fleet.start()
    try:
        yield from _results(board, fleet, cancelled, need, grace_seconds, patience)
    finally:
        fleet.stop()


def _results(
    board: Board,
    fleet: Fleet,
    cancelled: threading.Event,
    need: WorkerNeed,
    grace_seconds: Callable[[], float],
    patience: Patience,
) -> Iterator[Computed]:
    last: Computed | None = None
    while not board.finished:
        if cancelled.is_set():
            yield from _drained(board, fleet, grace_seconds)
            doing = "waiting for a worker of" if fleet.starting else "computing"
            raise Cancelled(f"cancelled while {doing} {need.load.function}; what was finished is kept")
        call = _next_done(board, cancelled)
        if call is None:
            fleet.look(time.monotonic())
            patience.check(time.monotonic())
        elif call.error is not None:
            raise call.error
        else:
            last = _computed(call)
            yield last
    if last is not None and not last.closes_part:
        yield Computed(last.tag.slice(0, 0), last.values.slice(0, 0), closes_part=True)


def _next_done(board: Board, cancelled: threading.Event) -> Call | None:
    try:
        return board.next_done(_LOOK_SECONDS)
    except Cancelled:
        if not cancelled.is_set():
            raise
        return None  # the input was told before us


def _drained(board: Board, fleet: Fleet, grace_seconds: Callable[[], float]) -> Iterator[Computed]:
    """Yield what the calls that run still give, as long as they may."""
    began = time.monotonic()
    if grace_seconds() <= 0:
        return
    board.drain()
    fleet.interrupt()
    while True:
        # Looked at first: what is done by then is taken off below.
        over = board.drained or time.monotonic() - began > grace_seconds()
        call = board.next_done(0 if over else _LOOK_SECONDS)
        if call is not None and call.error is None:
            yield _computed(call)
        elif over or call is not None:
            return


def _computed(call: Call) -> Computed:
    assert call.values is not None
    failed = () if call.failed is None else (call.failed,)
    return Computed(call.rows.tag, call.values, call.closes_part, failed, call.seconds)
