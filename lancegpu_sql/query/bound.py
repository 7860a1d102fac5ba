"""Functions whose class is made with values that a call gives: ``embed(text, model := 'small')``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.sql.call_reader import values_in, with_values, without_values
from lancegpu_sql.sql.names import fold


class BoundVersion(FunctionVersion):
    """A version of a Function with values for the ``__init__`` of its class."""

    bound: Mapping[str, Any]


def version_called(known: Mapping[str, FunctionVersion], function: str) -> FunctionVersion:
    """The version that a query calls, as `TextCall.function` names it.

    Parameters
    ----------
    known
        The Functions by folded name.
    """
    return made_with(known[without_values(function)], values_in(function))


def made_with(version: FunctionVersion, values: Mapping[str, Any]) -> FunctionVersion:
    """A version whose class is made with these values."""
    return BoundVersion.model_construct(**dict(version), bound=values) if values else version


def bound_values(version: FunctionVersion) -> Mapping[str, Any]:
    """The values with which a class is made; none for its defaults."""
    return version.bound if isinstance(version, BoundVersion) else {}


def name_called(version: FunctionVersion) -> str:
    """The Function as `TextCall.function` names it."""
    return with_values(fold(version.name), bound_values(version))
