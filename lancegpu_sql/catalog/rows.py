"""From a row of the catalog to the value that it keeps; one that cannot be read is told by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lancegpu_sql.errors import CatalogError
from lancegpu_sql.settings import requirement

Kept = TypeVar("Kept", bound=BaseModel)


class _NoJson:
    """Stands for a text that is no JSON: which row holds it is known only later."""


def json_of(text: str | bytes) -> Any:
    """Read a JSON column."""
    try:
        return json.loads(text)
    except ValueError:
        return _NoJson()


def value_of(kind: type[Kept], fields: Mapping[str, Any], *, table: str, **key: Any) -> Kept:
    """Return the value that a row keeps.

    Parameters
    ----------
    kind, fields
        Of the value.
    table, **key
        Which row it is.

    Raises
    ------
    CatalogError
        The fields make no such value; the message says which row that is, and what to do.
    """
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as exc:
        # What is no JSON comes first: other fields may lack only for that.
        first = min(exc.errors(include_url=False), key=lambda fault: not isinstance(fault["input"], _NoJson))
        field = str(first["loc"][0]) if first["loc"] else "it"
        wrong = "is no JSON" if isinstance(first["input"], _NoJson) else requirement(first)
        condition = " AND ".join(f"{name} = {_quoted(value)}" for name, value in key.items())
        advice = f"remove that row: DELETE FROM {table} WHERE {condition}"  # noqa: S608 - it is told, not run
        raise CatalogError(
            f"The catalog's row of {table} where {condition} is damaged, or another release's: {field} {wrong}. Restore "
            f"the catalog from a backup, or {advice}",
            table=table,
            key=key,
        ) from exc


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return what a JSON column that holds a value's fields holds; what is none of that fails as the field `definition`."""
    return value if isinstance(value, Mapping) else {"definition": value}


def _quoted(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
