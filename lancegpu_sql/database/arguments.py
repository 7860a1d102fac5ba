"""What a caller gave, checked where it arrives: a wrong type is told in the words of the call, not of what it met below."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import MOST, shown


def text(value: Any, what: str, *, none: bool = False) -> Any:
    """Return a text as it is.

    Raises
    ------
    InvalidInput
        It is none (nor None, where `none` allows that).
    """
    if none and value is None:
        return value
    if not isinstance(value, str):
        raise _wrong(what, "a text", value)
    if not _is_whole(value):
        raise _wrong(what, "a text of whole characters, without lone surrogates", value)
    return value


def path(value: Any, what: str) -> str:
    """Return a path as text.

    Raises
    ------
    InvalidInput
        It is none.
    """
    if isinstance(value, str | os.PathLike) and isinstance(name := os.fspath(value), str):
        # Names of files may hold bytes that are no UTF-8, which Python writes as lone surrogates.
        if "\0" in name or not _is_whole(name, "surrogateescape"):
            raise _wrong(what, "a path that a file system can hold", value)
        return name
    raise _wrong(what, "a path, as text or pathlib.Path", value)


def count(value: Any, what: str, *, least: int = 0, none: bool = False) -> Any:
    """Return a whole number as it is.

    Raises
    ------
    InvalidInput
        It is none, less than `least`, or longer than 64 bits.
    """
    if none and value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST:
        return value
    raise _wrong(what, f"a whole number, {least} or more and of 64 bits at most", value)


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
        if all(isinstance(one, str) and _is_whole(one) for one in found):
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
    return InvalidInput(f"{what} is to be {wanted}, not {shown(value)} ({type(value).__name__})")


def _is_whole(text: str, errors: str = "strict") -> bool:
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError:
        return False
    return True
