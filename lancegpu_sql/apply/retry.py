"""When a row that failed is tried again within a refresh. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lancegpu_sql.workers.calls import CallFailure

MOST_BACKOFF_SECONDS = 300.0
"""However often it failed; only what an exception asks for itself may be longer."""

MOST_RETRY_AFTER_SECONDS = 3600.0
"""What a service may ask for; a worker stands idle meanwhile."""


@dataclass(frozen=True)
class RetryPolicy:
    """Which errors of user code are worth another try.

    Parameters
    ----------
    attempts
        How often a row is tried in all; 1 tries none again.
    backoff_seconds
        How long to wait before the second try; twice as long before each further one. An exception that carries a
        Retry-After is taken at its word.
    errors
        Names of exceptions, with or without their module; none named means any. Subclasses count by their own names only:
        the class itself stays in the worker.
    messages
        A regular expression that the exception's text must contain; None means any.
    """

    attempts: int = 1
    backoff_seconds: float = 1.0
    errors: tuple[str, ...] = ()
    messages: str | None = None

    def delay_seconds(self, failure: CallFailure, tries: int) -> float | None:
        """Return how long to wait before the next try after `tries` of them; None where there is none."""
        if tries >= self.attempts or not self.matches(failure):
            return None
        if failure.retry_after_seconds is not None:
            return min(max(failure.retry_after_seconds, 0.0), MOST_RETRY_AFTER_SECONDS)
        return float(
            min(self.backoff_seconds * 2 ** min(tries - 1, 30), max(MOST_BACKOFF_SECONDS, self.backoff_seconds))
        )

    def matches(self, failure: CallFailure) -> bool:
        """Tell whether a failure is among those worth another try."""
        names = {failure.error_type, failure.error_type.rpartition(".")[2]}
        if self.errors and not names.intersection(self.errors):
            return False
        return self.messages is None or re.search(self.messages, failure.message) is not None


NO_RETRY = RetryPolicy()
"""What fails once has failed."""
