"""One thread on which everything about a placement's requests happens, one thing after another, some of it later."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)

Action = Callable[[], object]


_REST_SHARE = 4.0
"""How many times as long as it took an action rests that is run sparingly: it takes a fifth of a processor at most."""


class Loop:
    """Runs actions in the order they came, and others when their time has come."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._now: deque[Action] = deque()
        self._later: list[tuple[float, int, str, Action]] = []
        self._due: dict[str, float] = {}
        self._numbers = itertools.count()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, action: Action) -> None:
        """Run `action` soon; from any thread. Once the loop has ended, nothing happens."""
        with self._changed:
            self._now.append(action)
            self._changed.notify()

    def call_in(self, seconds: float, key: str, action: Action) -> None:
        """Run `action` in so many seconds, unless one of that key is due before; from any thread."""
        at = time.monotonic() + seconds
        with self._changed:
            if self._due.get(key, at + 1) <= at:
                return
            self._due[key] = at
            heapq.heappush(self._later, (at, next(self._numbers), key, action))
            self._changed.notify()

    def close(self) -> None:
        """End the thread and wait for that, unless it is this one."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception:
                # A fault over one request must not stop the events of all others.
                _log.exception("an action of %s failed", self._thread.name)

    def _next(self) -> Action | None:
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                if self._later and self._later[0][0] <= now:
                    at, _, key, action = heapq.heappop(self._later)
                    if self._due.get(key) == at:
                        del self._due[key]
                        return action
                elif self._now:
                    return self._now.popleft()
                else:
                    self._changed.wait(self._later[0][0] - now if self._later else None)
            return None


class Sparing:
    """An action that many ask for, run once for all who have asked so far, and the less often the longer it takes.

    Parameters
    ----------
    loop, key
        Where it runs, and its key there.
    every_seconds
        How long after it was first asked for it runs, at the soonest.
    """

    def __init__(self, loop: Loop, key: str, action: Action, every_seconds: float = 0.0) -> None:
        self._loop = loop
        self._key = key
        self._action = action
        self._every_seconds = every_seconds
        self._rests_until = 0.0

    def soon(self) -> None:
        """Run it soon; from any thread."""
        rest = self._rests_until - time.monotonic()
        self._loop.call_in(max(self._every_seconds, rest), self._key, self._run)

    def _run(self) -> None:
        begun = time.thread_time()
        try:
            self._action()
        finally:
            self._rests_until = time.monotonic() + _REST_SHARE * (time.thread_time() - begun)
