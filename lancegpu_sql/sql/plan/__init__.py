"""Cuts a query into stages whose Functions are called in large batches, and a query over what they give.

Pure: types and names of what a query reads are asked from a callable. Whatever is not provably the same stays as it was
written, to be called in place by DuckDB.

Identical calls of a block are one call, which is made for the rows that any of them reaches. A Function that is not
deterministic is called once for each row that reaches the call: after the conditions of WHERE that call nothing, and in a
SELECT list for the rows that QUALIFY and LIMIT leave. Two calls of it are two, and no condition of a query around it is
moved below it.
"""

from __future__ import annotations

from lancegpu_sql.sql.plan.planner import plan_query
from lancegpu_sql.sql.stages import Describe, PlannedCall, QueryPlan, ReadTree, Stage, StoredColumn

__all__ = ["Describe", "PlannedCall", "QueryPlan", "ReadTree", "Stage", "StoredColumn", "plan_query"]
