"""A Function that a reading has open: what was asked of it, and when it rests."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from lancegpu_sql.query.functions import FunctionCalls, Values

_REST_SECONDS = 1.0
"""DuckDB may be at something else in between."""

_PAUSE_SECONDS = 0.25
"""Whoever reads has closed the reader, which Arrow does not tell, or is busy otherwise for longer than most are with a batch."""


@dataclass(eq=False)
class OpenFunction:
    """A Function that is being computed."""

    calls: FunctionCalls
    asked: list[Values] = field(default_factory=list)
    asked_at: float = field(default_factory=time.monotonic)

    def rests(self, now: float, unread_seconds: float) -> bool:
        """Whether nothing has been asked for a while, and nothing is left to do.

        Parameters
        ----------
        unread_seconds
            For how long nobody has waited for rows.
        """
        self.asked = [values for values in self.asked if not values.done]
        unasked_seconds = now - self.asked_at
        paused = min(unasked_seconds, unread_seconds) >= _PAUSE_SECONDS
        return not self.asked and (paused or unasked_seconds >= _REST_SECONDS)
