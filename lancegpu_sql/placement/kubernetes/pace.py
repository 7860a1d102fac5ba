"""How fast calls may follow each other."""

from __future__ import annotations

import threading
import time


class Pace:
    """Lets a burst of calls through at once, and no more than `per_second` in the long run."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._at = time.monotonic()

    def wait(self) -> None:
        """Wait until one more call may go."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
            self._tokens -= 1
            seconds = -self._tokens / self._per_second
        if seconds > 0:
            time.sleep(seconds)
