"""DataFrames of pandas and polars, which are installed by who wants them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from lancegpu_sql.errors import InvalidInput


def library_of_frames(name: Literal["pandas", "polars"]) -> Any:
    """Return the library.

    Raises
    ------
    InvalidInput
        It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise  # it is there, and lacks something itself
        raise InvalidInput(
            f"to_{name}() needs {name}, which is not installed here: pip install {name}. Without it, to_arrow() gives the "
            "rows as an Arrow table.",
            library=name,
        ) from exc
