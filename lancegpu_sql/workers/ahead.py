"""A worker that is started before anybody asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from lancegpu_sql.errors import Cancelled
from lancegpu_sql.placement.interface import Listener, Placement
from lancegpu_sql.placement.request import PlacementEvent, Waiting
from lancegpu_sql.workers.worker import Worker

_LOOK_SECONDS = 0.1
"""How soon a cancellation is seen; everything else is told at once."""


class Ahead:
    """The start of a worker, and what the placement said meanwhile, for whoever comes to need it.

    Parameters
    ----------
    worker
        That is started.
    waits
        Whether it may wait for room; one that may not is given up where there is none.

    Attributes
    ----------
    error
        Why it did not come to serve.
    is_over
        Whether it serves by now, or will not.
    """

    def __init__(self, worker: Worker, *, waits: bool = True) -> None:
        self.worker = worker
        self._waits = waits
        self._given_up = False
        self.error: BaseException | None = None
        self.is_over = False
        self._told: SimpleQueue[PlacementEvent | None] = SimpleQueue()

    def run(self, placement: Placement, interrupted: Callable[[], bool]) -> None:
        """Start it; returns when its Function is loaded, or cannot be."""
        try:
            self.worker.start(placement, self._tell, lambda: self._given_up or interrupted())
        except BaseException as exc:
            self.error = exc

    def _tell(self, event: PlacementEvent) -> None:
        self._told.put(event)
        if isinstance(event, Waiting) and not self._waits:
            self._given_up = True

    def over(self) -> None:
        """Let go of whoever waits."""
        self.is_over = True
        self._told.put(None)

    def wait(self, listener: Listener, cancelled: threading.Event) -> None:
        """Wait until the worker serves, and pass on what is told meanwhile.

        Raises
        ------
        Cancelled
            `cancelled` was set.
        LoadFailed, LoadTimeout, WorkerLost
            It will not serve.
        """
        while True:
            if cancelled.is_set():
                raise Cancelled(f"cancelled while a worker of {self.worker.need.load.function} was started")
            try:
                event = self._told.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
            if event is None:
                break
            listener(event)
        if self.error is not None:
            raise self.error
