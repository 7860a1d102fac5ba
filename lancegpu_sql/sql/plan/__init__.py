"""Cuts a query into stages whose Functions are called in large batches, and a query over what they give.

Pure: types and names of what a query reads are asked from a callable. Whatever is not provably the same stays as it was
written, to be called in place by DuckDB.
"""

from __future__ import annotations

from lancegpu_sql.sql.plan.planner import plan_query
from lancegpu_sql.sql.stages import Describe, PlannedCall, QueryPlan, ReadTree, Stage, StoredColumn

__all__ = ["Describe", "PlannedCall", "QueryPlan", "ReadTree", "Stage", "StoredColumn", "plan_query"]
