"""Lets workers of other machines hear that their owner lives; one that hears nothing ends itself."""

from __future__ import annotations

import threading
from contextlib import suppress

from lancegpu_sql.errors import WorkerLost
from lancegpu_sql.workers.client import WorkerClient

_EVERY_SECONDS = 5.0
"""A small part of the time after which a worker takes itself for an orphan (a minute, unless an operator says less)."""

_ANSWER_SECONDS = 0.5
"""A worker that cannot answer for the moment cannot count the silence either."""


class Greeter:
    """Greets each of its workers every few seconds, from one thread, which runs while there are any."""

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._changed = threading.Condition()
        self._clients: set[WorkerClient] = set()
        self._thread: threading.Thread | None = None

    def add(self, client: WorkerClient) -> None:
        """Greet this one from now on."""
        with self._changed:
            self._clients.add(client)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="worker-greeter", daemon=True)
                self._thread.start()

    def discard(self, client: WorkerClient) -> None:
        """Greet this one no more; it may be closed afterwards."""
        with self._changed:
            self._clients.discard(client)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._clients, self._every_seconds)
                if not self._clients:
                    self._thread = None
                    return
                clients = tuple(self._clients)
            for client in clients:
                # What its death means is told by the placement, and met by whoever waits for its results.
                with suppress(WorkerLost):
                    client.health(_ANSWER_SECONDS)
