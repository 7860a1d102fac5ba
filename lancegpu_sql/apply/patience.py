"""How long the first worker of an `apply` may be waited for."""

from __future__ import annotations

from lancegpu_sql.errors import WaitedTooLong
from lancegpu_sql.placement.request import PlacementEvent, Waiting


class Patience:
    """Counts the time of one wait; the next one counts from nothing.

    Parameters
    ----------
    limit_seconds
        How long a wait may last; None means however long.
    function, gpu_class
        What is waited for, in messages.
    """

    def __init__(self, limit_seconds: float | None, function: str, gpu_class: str | None) -> None:
        self._limit_seconds = limit_seconds
        self._function = function
        self._gpu_class = gpu_class
        self._wait: tuple[float, Waiting] | None = None

    def hear(self, event: PlacementEvent, now: float) -> None:
        """Note what becomes of the request for the worker."""
        if isinstance(event, Waiting):
            since = now if self._wait is None else self._wait[0]
            self._wait = since, event
        else:
            self._wait = None

    def check(self, now: float) -> None:
        """Raise `WaitedTooLong` once it is over."""
        wait, limit = self._wait, self._limit_seconds
        if wait is None or limit is None or now - wait[0] < limit:
            return
        waiting = wait[1]
        where = "a CPU worker" if self._gpu_class is None else f"GPU class {self._gpu_class!r}"
        raise WaitedTooLong(
            f"{self._function} waited for {where} for longer than {limit:g} s (max_wait_seconds): {waiting.message}. What was "
            "finished is kept: go on later, or with more time",
            function=self._function,
            gpu_class=self._gpu_class,
            max_wait_seconds=limit,
            reason=waiting.reason,
            can_be_met=waiting.can_be_met,
        )
