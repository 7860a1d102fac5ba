"""What becomes of a call that failed: tried again, split, given to another device, or blamed. Pure.

Only `user` and `input` may cost a row its value: all else fails the work, or is worked around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lancegpu_sql.apply.retry import RetryPolicy
from lancegpu_sql.errors import Owner
from lancegpu_sql.workers.calls import CallFailure

_LEAST_PIECE_ROWS = 8

_PIECES_OF_RAISED = 16
"""Of a call that raised for rows that it does not name: the more pieces, the fewer rows are computed once more in vain."""

_PIECES_OVER_TIME = 8
"""Of a call that took too long: each further one takes all of its time, so that few of them should lead to one row."""

DEVICES_TO_BLAME = 2
"""An error of a device is the rows' fault only where this many different ones gave it."""


@dataclass(frozen=True)
class Retry:
    """All rows once more, after a while."""

    delay_seconds: float


@dataclass(frozen=True)
class Elsewhere:
    """All rows once more, on another device."""


@dataclass(frozen=True)
class Split:
    """Pieces of `sizes` rows, in order. Piece `failed`, of one row, is met by `then`."""

    sizes: tuple[int, ...]
    failed: int | None = None
    then: Retry | Skip | None = None


@dataclass(frozen=True)
class Skip:
    """The only row has no value."""

    owner: Owner


@dataclass(frozen=True)
class Fail:
    """The work fails."""

    owner: Owner


Verdict = Retry | Elsewhere | Split | Skip | Fail


def on_failure(
    failure: CallFailure,
    owner: Owner,
    *,
    rows: int,
    tries: int,
    devices: int,
    device_failures: int,
    retry: RetryPolicy,
    skips: bool,
    max_worker_losses: int,
) -> Verdict:
    """Decide about a call whose Function failed.

    Parameters
    ----------
    failure, owner
        How, and whose fault that is.
    rows
        Of the call.
    tries
        How often just these rows were tried, this time included.
    devices, device_failures
        On how many different devices they failed for a device's error, and how often.
    retry, skips, max_worker_losses
        Of the options: what is tried again, and whether a row may be left without a value.
    """
    match owner:
        case "memory":
            return Split(halves(rows)) if rows > 1 else Fail(owner)
        case "device" if devices >= DEVICES_TO_BLAME:
            return Split(halves(rows)) if rows > 1 else _blame("input", skips)
        case "device":
            # Another device gets its chance whatever workers may cost.
            return Elsewhere() if device_failures <= max(1, max_worker_losses) else Fail(owner)
        case "user":
            return _on_raised(failure, rows, tries, retry, skips)
        case _:
            return Fail(owner)


def on_timeout(rows: int) -> Split | Fail:
    """Decide about a call that took longer than it may: it was too large, or one of its rows never ends, and is to be named."""
    if rows == 1:
        return Fail("timeout")
    return Split(_pieces(rows, _PIECES_OVER_TIME))


def on_losses(owner: Owner, *, rows: int, skips: bool) -> Verdict:
    """Decide about a call that cost more workers than it may, or that needs more memory than there is."""
    if owner in ("input", "memory") and rows > 1:
        return Split(halves(rows))
    return _blame(owner, skips) if owner == "input" else Fail(owner)


def _on_raised(failure: CallFailure, rows: int, tries: int, retry: RetryPolicy, skips: bool) -> Verdict:
    delay_seconds = retry.delay_seconds(failure, tries)
    index = 0 if rows == 1 else failure.row_index
    if delay_seconds is not None and (rows == 1 or index is None):
        return Retry(delay_seconds)
    if index is None:
        return Split(_pieces(rows, _PIECES_OF_RAISED))
    then = _blame("user", skips) if delay_seconds is None else Retry(delay_seconds)
    if rows == 1 or isinstance(then, Fail):
        return then
    assert not isinstance(then, Elsewhere | Split)
    before = (index,) if index else ()
    return Split((*before, 1, *_growing(rows - index - 1, index + 1)), failed=len(before), then=then)


def _blame(owner: Owner, skips: bool) -> Skip | Fail:
    return Skip(owner) if skips else Fail(owner)


def halves(rows: int) -> tuple[int, int]:
    """Cut in the middle."""
    return rows - rows // 2, rows // 2


def _pieces(rows: int, most: int) -> tuple[int, ...]:
    """Cut into so many pieces, as alike as can be, or into single rows."""
    count = min(rows, most)
    return tuple(rows * (at + 1) // count - rows * at // count for at in range(count))


def _growing(rows: int, seen: int) -> Sequence[int]:
    """Cut the rows behind a failed one into pieces, each twice the one before: where many fail, little is sent in vain."""
    sizes: list[int] = []
    size = max(_LEAST_PIECE_ROWS, 2 * seen)
    while rows > 0:
        # A small rest is no piece of its own.
        size = rows if rows <= 2 * size else size
        sizes.append(size)
        rows -= size
        size *= 2
    return sizes
