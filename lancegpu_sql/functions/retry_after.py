"""What an exception says of when to try again, as HTTP clients and the libraries of services put it."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

_HEADER = "Retry-After"


def retry_after_seconds(error: BaseException) -> float | None:
    """Return the seconds that an exception asks to wait; None where it says nothing that can be read.

    Looked at are an attribute `retry_after` (seconds, a `timedelta`, or text), and the header of that name, of the exception
    itself (urllib) or of its `response` (requests, httpx, aiohttp, and what is built on them), be it seconds or a date.
    """
    try:
        return next((seconds for said in _said(error) if (seconds := _seconds(said)) is not None), None)
    except BaseException:  # it is user code that is looked at: its properties may raise anything
        return None


def _said(error: BaseException) -> Iterator[Any]:
    yield getattr(error, "retry_after", None)
    for holder in (error, getattr(error, "response", None)):
        headers: Any = getattr(holder, "headers", None)
        if hasattr(headers, "get"):
            yield headers.get(_HEADER)
            yield headers.get(_HEADER.lower())


def _seconds(said: Any) -> float | None:
    if isinstance(said, timedelta):
        return max(0.0, said.total_seconds())
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(str(said)).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
