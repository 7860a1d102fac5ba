"""What DuckDB says of a function that it does not have, told with the registered ones in mind. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from lancegpu_sql.sql.names import fold

_MISSING = re.compile(
    r"(?P<told>Catalog Error: Scalar Function with name (?P<name>.+?) does not exist!)(?P<guess>\n[^\n]+)?"
)
_CUTOFF = 0.7


def with_registered(message: str, functions: Iterable[str]) -> str:
    """Return the message with a registered Function of a similar name; DuckDB guesses among its own alone."""
    found = _MISSING.match(message)
    if found is None:
        return message
    names = {fold(name): name for name in functions}
    if fold(found["name"]) in names:  # the name of a schema stands before it
        written = names[fold(found["name"])]
        return f'{found["told"]}\nThe Function "{written}" is called by its name alone.{message[found.end() :]}'
    near = difflib.get_close_matches(fold(found["name"]), list(names), n=1, cutoff=_CUTOFF)
    guess = f'\nDid you mean "{names[near[0]]}"?' if near else found["guess"] or ""
    listed = "" if near else "\nSHOW FUNCTIONS lists those that are registered."
    return found["told"] + guess + listed + message[found.end() :]
