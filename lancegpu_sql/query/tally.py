"""What one reading of a query did: rows of its stages, rows and bytes that its Functions were asked for."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What workers did for one Function of a query.

    Attributes
    ----------
    calls, rows
        How many calls they computed, and rows in these.
    seconds
        How long they computed, all workers together.
    waiting_seconds
        How long the query waited for its first worker: for room, and for its start.
    """

    calls: int = 0
    rows: int = 0
    seconds: float = 0.0
    waiting_seconds: float = 0.0


class Tally:
    """Counts; several threads may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked_rows: Counter[str] = Counter()
        self.asked_bytes: Counter[str] = Counter()
        self.stage_rows: Counter[str] = Counter()
        self.stage_bytes: Counter[str] = Counter()

    def asked(self, function: str, rows: int, size_bytes: int) -> None:
        """A Function was asked for the values of some rows."""
        with self._lock:
            self.asked_rows[function] += rows
            self.asked_bytes[function] += size_bytes

    def read(self, stage: str, rows: int, size_bytes: int) -> None:
        """A stage read some rows of its input."""
        with self._lock:
            self.stage_rows[stage] += rows
            self.stage_bytes[stage] += size_bytes
