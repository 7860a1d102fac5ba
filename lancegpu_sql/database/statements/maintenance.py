"""OPTIMIZE TABLE and EXPLAIN OPTIMIZE, carried out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancegpu_sql.database import jobs, maintenance
from lancegpu_sql.database.statements.columns import LEFT_TO_AGENTS
from lancegpu_sql.database.statements.context import Context
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.maintenance.request import OptimizeOptions
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.sql.statements import model
from lancegpu_sql.sql.statements.options import seconds

# `cleanup_older_than` is LanceDB's word for the same.
_OLDER_THAN = "cleanup_older_than_seconds"
OPTIONS = ("cleanup_older_than", _OLDER_THAN, "delete_unverified")

_DONE = pa.schema(
    [
        ("fragments_before", pa.int64()),
        ("fragments_after", pa.int64()),
        ("versions_removed", pa.int64()),
        ("files_removed", pa.int64()),
        ("bytes_removed", pa.int64()),
        ("checkpoints_removed", pa.int64()),
        ("kept", pa.list_(pa.string())),
        ("version", pa.int64()),
        ("job_id", pa.string()),
    ]
)
_PLANNED = pa.schema(
    [
        ("action", pa.string()),
        ("what", pa.string()),
        ("count", pa.int64()),
        ("size_bytes", pa.int64()),
        ("reason", pa.string()),
    ]
)


def optimize(context: Context, statement: model.OptimizeTable) -> QueryResult:
    """Look after a table, here or by the database's agents."""
    table, options = context.snapshot(statement.table).name, _options(context, statement.options)
    if not statement.wait:
        job = jobs.submit_optimize(context.services, table, options)
        return context.rows(LEFT_TO_AGENTS, [{"job_id": job.id, "state": str(job.status())}])
    done = jobs.show(context.services, jobs.optimize_job(context.services, table, options))
    return context.rows(_DONE, [done.model_dump() | {"kept": [str(step) for step in done.kept]}])


def explain(context: Context, statement: model.ExplainOptimize) -> QueryResult:
    """Tell what looking after a table would do."""
    table, options = context.snapshot(statement.table).name, _options(context, statement.options)
    planned = maintenance.explained(context.services, table, options)
    return context.rows(_PLANNED, [step.model_dump() for step in planned.steps])


def _options(context: Context, given: model.Options) -> OptimizeOptions:
    options: dict[str, Any] = context.timed_options(given, OPTIONS)
    if "cleanup_older_than" in options:
        if _OLDER_THAN in options:
            raise InvalidInput(f"cleanup_older_than and {_OLDER_THAN} say the same: give one of them.")
        value = options.pop("cleanup_older_than")
        options[_OLDER_THAN] = seconds(value) if isinstance(value, str) and seconds(value) is not None else value
    return OptimizeOptions.of(**options)
