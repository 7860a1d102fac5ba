"""How an object store is reached, as it was given: values that stand for a variable or a file are read as one connects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lancegpu_sql.errors import InvalidInput

# Lance's client tries for three minutes before it gives up: a person waits for an answer, and jobs can be resumed.
_DEFAULTS = {"client_retry_timeout": "30"}


def resolved(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with their values: ``env:NAME`` stands for a variable, ``file:/path`` for what a file holds.

    Raises
    ------
    InvalidInput
        There is no such variable or file.
    """
    return _DEFAULTS | {name: _value(name, text) for name, text in given.items()}


def _value(name: str, text: str) -> str:
    kind, _, what = text.partition(":")
    if kind == "env":
        found = os.environ.get(what)
        if found is None:
            raise InvalidInput(
                f"storage_options: {name} is to come from the variable {what}, which is not set",
                setting="storage_options",
            )
        return found
    if kind == "file":
        try:
            return Path(what).read_text().strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInput(
                f"storage_options: {name} is to come from the file {what}, which cannot be read: {exc}",
                setting="storage_options",
            ) from exc
    return text
