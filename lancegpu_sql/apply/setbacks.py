"""Calls that failed, or that went down with a worker, met as `verdict` says. Its caller has the lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from lancegpu_sql.apply.batches import RowFailure
from lancegpu_sql.apply.blame import owner_of, owner_of_loss
from lancegpu_sql.apply.failures import call_error, call_timeout, worker_lost
from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.queue import CallQueue
from lancegpu_sql.apply.suspects import SuspectDevices
from lancegpu_sql.apply.verdict import Elsewhere, Fail, Retry, Skip, Split, Verdict, on_failure, on_losses, on_timeout
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.placement.request import Lost
from lancegpu_sql.workers.calls import CallFailure, FunctionLoad


@dataclass(frozen=True)
class News:
    """Something worth keeping. `fits_rows` are the most rows of one call on `gpu_class`, where that was learnt."""

    kind: str
    message: str
    gpu_class: str | None = None
    fits_rows: int | None = None


class Setbacks:
    """Decides and does what becomes of calls that did not succeed.

    Parameters
    ----------
    queue
        Where they stand.
    load, options
        Of the `apply`.
    """

    def __init__(self, queue: CallQueue, load: FunctionLoad, options: ApplyOptions) -> None:
        self._queue = queue
        self._load = load
        self._options = options
        self._devices = SuspectDevices()
        self.news: list[News] = []

    @property
    def avoided(self) -> frozenset[str]:
        """Places where no further worker should be started."""
        return self._devices.avoided

    def failed(self, call: Call, hand: Hand, failure: CallFailure) -> None:
        """The Function failed."""
        owner = owner_of(failure, on_device=bool(hand.places))
        if owner == "device":
            self._spoil(call, hand, failure)
        call.tries += 1
        verdict = on_failure(
            failure,
            owner,
            rows=call.rows.rows,
            tries=call.tries,
            devices=len(call.failed_on),
            device_failures=call.device_failures,
            retry=self._options.retry,
            skips=self._options.skips,
            max_worker_losses=self._options.max_worker_losses,
        )
        if owner == "memory" and isinstance(verdict, Split):
            self._learn(hand, call.rows.rows, verdict.sizes[0])
        if owner == "device" and not isinstance(verdict, Elsewhere | Fail):
            self._devices.cleared(call.failed_on)
        blamed = verdict.owner if isinstance(verdict, Skip | Fail) else owner

        def error_of(one: Call) -> LanceGpuError:
            return call_error(self._load, one.rows, failure if one is call else replace(failure, row_index=0), blamed)

        self._act(call, verdict, error_of)

    def lost(self, call: Call, hand: Hand, why: Lost) -> None:
        """A worker ended while it computed the call, which may be to blame for that."""
        call.losses += 1
        call.deaths += 1
        owner = owner_of_loss(why.cause)
        if owner == "memory" and call.rows.rows > 1:
            verdict = on_losses(owner, rows=call.rows.rows, skips=self._options.skips)
            assert isinstance(verdict, Split)
            self._learn(hand, call.rows.rows, verdict.sizes[0])
            self._split(call, verdict)
        elif call.losses > self._options.max_worker_losses:
            verdict = on_losses(owner, rows=call.rows.rows, skips=self._options.skips)
            if isinstance(verdict, Split):
                for piece in self._split(call, verdict):
                    # One more loss tells which piece it is. A row alone must cost two: the first may have been chance.
                    piece.losses = max(0, self._options.max_worker_losses - (piece.rows.rows == 1))
                    piece.suspect = True
            else:
                self._act(call, verdict, lambda one: worker_lost(self._load, one.rows, one.deaths, why))
        else:
            self._queue.again(call)

    def timed_out(self, call: Call, limit_seconds: float) -> None:
        """A call takes longer than it may; its worker, which still has it, is about to be ended."""
        rows = call.rows.rows
        if isinstance(on_timeout(rows), Fail):
            self._queue.fail(call, call_timeout(self._load, call.rows, limit_seconds))
        else:
            told = (
                f"{rows:,} rows took longer than call_timeout_seconds={limit_seconds:g}: they are tried again in pieces"
            )
            self.news.append(News("call_timed_out", told))

    def cut_up(self, call: Call) -> None:
        """The worker of a call that took too long has ended."""
        verdict = on_timeout(call.rows.rows)
        assert isinstance(verdict, Split)
        self._split(call, verdict)

    def computed(self, call: Call, hand: Hand) -> None:
        """A call succeeded: where it had failed before for an error of the device, that one is guilty."""
        if call.failed_on and not call.failed_on & hand.places:
            for place in sorted(self._devices.computed_elsewhere(call.failed_on)):
                told = f"{place} is avoided from now on: calls failed there that {_names(hand)} computed"
                self.news.append(News("device_avoided", told))

    def _spoil(self, call: Call, hand: Hand, failure: CallFailure) -> None:
        """The worker's device gave an error: what it computes from then on cannot be trusted, nor waited for."""
        call.failed_on |= hand.places
        call.device_failures += 1
        self._devices.failed(hand.places)
        text = failure.message.splitlines()[0][:300]
        hand.spoiled = f"was ended: {_names(hand)} failed under {self._load.function} ({text})"

    def _learn(self, hand: Hand, rows: int, fits_rows: int) -> None:
        if hand.fits_rows is not None and hand.fits_rows <= fits_rows:
            return
        hand.fits_rows = fits_rows
        where = "a CPU worker" if hand.gpu_class is None else f"a worker of GPU class {hand.gpu_class!r}"
        told = f"{rows:,} rows at once need more memory than {where} has; a call has {fits_rows:,} at most from now on"
        self.news.append(News("batch_halved", told, hand.gpu_class, fits_rows))

    def _act(self, call: Call, verdict: Verdict, error_of: Callable[[Call], LanceGpuError]) -> None:
        match verdict:
            case Retry(delay_seconds):
                self._queue.again(call, time.monotonic() + delay_seconds)
            case Elsewhere():
                self._queue.again(call)
            case Split(_, failed, then):
                pieces = self._split(call, verdict)
                if failed is not None and then is not None:
                    pieces[failed].tries = 1
                    self._act(pieces[failed], then, error_of)
            case Skip(owner):
                nothing = pa.nulls(1, parse_type(self._load.output_type))
                failure = RowFailure(0, owner, error_of(call), max(call.tries, call.deaths))
                self._queue.keep(call, nothing, failure)
            case Fail():
                self._queue.fail(call, error_of(call))

    def _split(self, call: Call, verdict: Split) -> list[Call]:
        pieces = self._queue.split(call, verdict.sizes)
        for at, piece in enumerate(pieces):
            # What was tried together is not tried together again; a row alone has all its tries before it.
            piece.tries = call.tries if piece.rows.rows > 1 else 0
            piece.suspect = call.suspect
            if at != verdict.failed:
                self._queue.again(piece)
        return pieces


def _names(hand: Hand) -> str:
    return ", ".join(hand.devices) or hand.worker
