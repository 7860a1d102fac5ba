"""A few threads for calls that take their time; none of them keeps a process from ending."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

_log = logging.getLogger(__name__)

Action = Callable[[], object]


class Crew:
    """Runs actions, up to `size` at a time. A pool of `concurrent.futures` would be waited for when Python ends."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._lock = threading.Lock()
        self._actions: SimpleQueue[Action | None] = SimpleQueue()
        self._threads = 0
        self._idle = 0

    def submit(self, action: Action) -> None:
        """Run an action as soon as a thread is free."""
        with self._lock:
            grow = self._idle <= 0 and self._threads < self._size
            if grow:
                self._threads += 1
            else:
                self._idle -= 1
        self._actions.put(action)
        if grow:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Let the threads end when they have done what was submitted."""
        with self._lock:
            for _ in range(self._threads):
                self._actions.put(None)

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            try:
                action()
            except Exception:
                _log.exception("an action of %s failed", self._name)
            with self._lock:
                self._idle += 1
