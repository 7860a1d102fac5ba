"""SQL over Lance tables in which any registered Python Function, GPU ones included, can be called, stored and kept fresh.

Importing this package loads the standard library only; each name below brings what it needs when it is first used.
A worker imports it too, with nothing but pyarrow and cloudpickle beside it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancegpu_sql import errors
from lancegpu_sql.functions.binding import col
from lancegpu_sql.functions.decorator import function
from lancegpu_sql.imports import undisturbed
from lancegpu_sql.version import __version__

if TYPE_CHECKING:
    from lancegpu_sql.database import Database, JobHandle, Table
    from lancegpu_sql.database.attachment import Attachment, attach
    from lancegpu_sql.database.connect import connect
    from lancegpu_sql.placement.kubernetes import KubernetesPlacement

__all__ = [
    "Attachment",
    "Database",
    "JobHandle",
    "KubernetesPlacement",
    "Table",
    "__version__",
    "attach",
    "col",
    "connect",
    "errors",
    "function",
]

_LATER = {
    **dict.fromkeys(("Database", "JobHandle", "Table", "connect"), "lancegpu_sql.database"),
    **dict.fromkeys(("Attachment", "attach"), "lancegpu_sql.database.attachment"),
    "KubernetesPlacement": "lancegpu_sql.placement.kubernetes",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        with undisturbed():
            return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
