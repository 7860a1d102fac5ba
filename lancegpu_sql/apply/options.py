"""How `apply` goes about its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancegpu_sql.apply.retry import NO_RETRY, RetryPolicy

_MIB = 1024 * 1024


@dataclass(frozen=True)
class ApplyOptions:
    """Bounds and targets of one `apply`.

    Parameters
    ----------
    batch_size
        The most rows of one call; None leaves that to what is measured.
    part_target_seconds
        How long computing one part should take.
    max_part_rows
        The most rows of one part; None makes all rows one part, where nothing is written down when a part ends.
    call_timeout_seconds
        How long one call may take; None means as long as it takes.
    max_workers
        The most workers at a time; None takes as many as are free.
    max_worker_losses
        How many workers may be lost over one call before the call is blamed.
    max_wait_seconds
        How long one wait for room for the first worker may last; None means however long.
    call_target_bytes
        About how many bytes of arguments, or of results, one call carries.
    in_flight_calls, in_flight_bytes
        The most calls, and the most bytes of arguments, on their way to one worker.
    outstanding_bytes
        The most bytes of rows read but not yet given back, and of results that wait for their turn.
    silence_seconds
        A worker that computes and gave no result for so long is asked whether it lives.
    health_timeout_seconds
        How long it may take to answer that before it is given up: user code may hold its interpreter lock for a while.
    error_policy
        Whether a row that fails by its user's or its own fault ends the work or is left without a value.
    retry
        Which failures are tried again before that.
    """

    batch_size: int | None = None
    part_target_seconds: float = 30.0
    max_part_rows: int | None = 1_000_000
    call_timeout_seconds: float | None = None
    max_workers: int | None = None
    max_worker_losses: int = 3
    max_wait_seconds: float | None = None
    call_target_bytes: int = 8 * _MIB
    in_flight_calls: int = 4
    in_flight_bytes: int = 32 * _MIB
    outstanding_bytes: int = 64 * _MIB
    silence_seconds: float = 5.0
    health_timeout_seconds: float = 60.0
    error_policy: Literal["fail", "skip"] = "fail"
    retry: RetryPolicy = NO_RETRY

    @property
    def skips(self) -> bool:
        """Whether a row may be left without a value."""
        return self.error_policy == "skip"
