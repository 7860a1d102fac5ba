"""Workers: the process that has one Function loaded and answers Arrow Flight, its client, and the pool of leases.

Only this room speaks Flight. A worker imports `server` and what it needs, never `pool`: therefore the names below
load when they are asked for. What is sent to a worker, and what becomes of its answers, is decided in `apply`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancegpu_sql.workers.calls import CallFailure, CallResult, FunctionLoad, LoadReport, WorkerHealth
    from lancegpu_sql.workers.client import CallStream, WorkerClient
    from lancegpu_sql.workers.lease import Lease
    from lancegpu_sql.workers.need import WorkerNeed
    from lancegpu_sql.workers.pool import WorkerPool

_HOMES = {
    "CallFailure": "calls",
    "CallResult": "calls",
    "CallStream": "client",
    "FunctionLoad": "calls",
    "Lease": "lease",
    "LoadReport": "calls",
    "WorkerClient": "client",
    "WorkerHealth": "calls",
    "WorkerNeed": "need",
    "WorkerPool": "pool",
}

__all__ = [
    "CallFailure",
    "CallResult",
    "CallStream",
    "FunctionLoad",
    "Lease",
    "LoadReport",
    "WorkerClient",
    "WorkerHealth",
    "WorkerNeed",
    "WorkerPool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
