"""Which queries read all their rows before they give the first of their own."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_aggregate, own_nodes

_STOPS = ("limit", "offset", "fetch")


def reads_all(query: exp.Query, inputs: Sequence[exp.Query]) -> bool:
    """Whether a query is known to read all rows of its stages, whoever reads its own: one that groups or sorts.

    Parameters
    ----------
    query
        What is read last; it may stop its own rows, which come when all is read.
    inputs
        What its stages read.
    """
    if not all(_is_one_block(each) for each in (query, *inputs)):
        return False
    if any(each.args.get(stop) for each in inputs for stop in _STOPS):
        return False
    groups = query.args.get("group") or any(is_aggregate(node) for item in query.selects for node in own_nodes(item))
    return bool(groups or query.args.get("order"))


def _is_one_block(query: exp.Query) -> bool:
    return isinstance(query, exp.Select) and len(list(query.find_all(exp.Query))) == 1 and not query.args.get("joins")
