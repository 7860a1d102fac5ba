"""What a caller gave, checked where it arrives: a wrong type is told in the words of the call, not of what it met below."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.errors import InvalidInput

_SHOWN_CHARACTERS = 100


def text(value: Any, what: str, *, none: bool = False) -> Any:
    """Return a text as it is.

    Raises
    ------
    InvalidInput
        It is none (nor None, where `none` allows that).
    """
    if isinstance(value, str) or (none and value is None):
        return value
    raise _wrong(what, "a text", value)


def path(value: Any, what: str) -> str:
    """Return a path as text.

    Raises
    ------
    InvalidInput
        It is none.
    """
    if isinstance(value, str | os.PathLike) and isinstance(name := os.fspath(value), str):
        return name
    raise _wrong(what, "a path, as text or pathlib.Path", value)


def count(value: Any, what: str, *, least: int = 0, none: bool = False) -> Any:
    """Return a whole number as it is.

    Raises
    ------
    InvalidInput
        It is none, or less than `least`.
    """
    if none and value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise _wrong(what, f"a whole number, {least} or more", value)


def seconds(value: Any, what: str) -> Any:
    """Return a number of seconds, or None, as it is.

    Raises
    ------
    InvalidInput
        It is neither, or negative.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0):
        return value
    raise _wrong(what, "a number of seconds, or None", value)


def names(value: Any, what: str, *, none: bool = False) -> Any:
    """Return names as a list.

    Raises
    ------
    InvalidInput
        They are no texts.
    """
    if none and value is None:
        return value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        found = list(value)
        if all(isinstance(one, str) for one in found):
            return found
    raise _wrong(what, "a list of names", value)


def mapping(value: Any, what: str) -> Mapping[Any, Any]:
    """Return a mapping as it is.

    Raises
    ------
    InvalidInput
        It is none.
    """
    if isinstance(value, Mapping):
        return value
    raise _wrong(what, "a mapping of names to values", value)


def span(value: Any, what: str) -> Any:
    """Return a `timedelta`, or None, as it is.

    Raises
    ------
    InvalidInput
        It is neither, or negative.
    """
    if value is None or (isinstance(value, timedelta) and value >= timedelta(0)):
        return value
    raise _wrong(what, "a datetime.timedelta, or None", value)


def states(value: Any) -> list[JobState] | None:
    """Return the states of jobs that are meant.

    Raises
    ------
    InvalidInput
        One of them is no state.
    """
    found = names(value, "states", none=True)
    unknown = [one for one in found or [] if one not in set(JobState)]
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is no state of a job; the states are {', '.join(JobState)}")
    return None if found is None else [JobState(one) for one in found]


def _wrong(what: str, wanted: str, value: Any) -> InvalidInput:
    shown = repr(value)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}…"
    return InvalidInput(f"{what} is to be {wanted}, not {shown} ({type(value).__name__})")
