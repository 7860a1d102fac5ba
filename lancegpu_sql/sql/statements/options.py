"""WITH (name = value, …): what each value is, and whether such an option is known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from lancegpu_sql.sql.constants import number_of
from lancegpu_sql.sql.statements.fault import fault
from lancegpu_sql.sql.statements.model import Option, Options, Value
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind

_WORDS: Mapping[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}
_SPAN = re.compile(
    r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)\s*", re.ASCII
)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def options(reader: Reader) -> Options:
    """Read WITH (…), if it comes next."""
    if not reader.accept("WITH"):
        return ()
    found = tuple(reader.list_of(lambda: _option(reader)))
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            raise fault(reader.whole, one.position, f"The option {one.name!r} is given twice")
        seen.add(one.name)
    return found


def known(whole: str, given: Options, names: Iterable[str]) -> dict[str, Value]:
    """Return options as a mapping.

    Raises
    ------
    ParseError
        One of them is none of the `names`, which it lists.
    """
    valid = tuple(names)
    for one in given:
        if one.name not in valid:
            near = difflib.get_close_matches(one.name, valid, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            raise fault(whole, one.position, f"There is no option {one.name!r} here{guess}", expected=valid)
    return {one.name: one.value for one in given}


def seconds(text: str) -> float | None:
    """Return the seconds of a text such as ``30s``, ``1.5 minutes`` or ``250ms``; None for another text."""
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    unit = "milli" if found[2].startswith("milli") else "ms" if found[2] == "ms" else found[2][0]
    return float(found[1]) * _SECONDS[unit]


def value(reader: Reader) -> Value:
    """Read one constant."""
    word = reader.peek()
    if word.kind in (Kind.STRING, Kind.BODY):
        return reader.take().value
    if word.folded in _WORDS:
        return _WORDS[reader.take().folded]
    negative = reader.accept_sign("-")
    word = reader.peek()
    if word.kind is not Kind.NUMBER:
        reader.refuse(expected=("a number", "a text in quotes", "TRUE", "FALSE", "NULL"))
    number = number_of(word.value)
    if number is None:
        reader.refuse("This number cannot be read", expected="a number")
    reader.take()
    return -number if negative else number


def _option(reader: Reader) -> Option:
    position = reader.peek().start
    name = reader.name("the name of an option").lower()
    if not (reader.accept_sign("=") or reader.accept_sign(":=") or reader.accept_sign("=>")):
        reader.refuse(expected="=")
    return Option(name, value(reader), position)
