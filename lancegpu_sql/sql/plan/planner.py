"""From a text to its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lancegpu_sql.sql.functions_in_text import Signature, calls_in
from lancegpu_sql.sql.plan.model import Describe, QueryPlan, ReadTree, StoredColumn


def plan_query(
    text: str,
    known: Mapping[str, Signature],
    describe: Describe,
    computed: Mapping[str, Sequence[StoredColumn]] | None = None,
    read_tree: ReadTree | None = None,
) -> QueryPlan:
    """Plan one query."""
    calls = calls_in(text, known)
    return QueryPlan((), text, tuple(sorted({call.function for call in calls})))
