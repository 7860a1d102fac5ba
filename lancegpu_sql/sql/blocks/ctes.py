"""The CTEs that go with a part of a query when it becomes a query of its own."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_aggregate, is_volatile, markers_in
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.scopes import tables_named, visible_ctes, with_ctes
from lancegpu_sql.sql.names import fold


def taken_along(
    part: exp.Query, place: exp.Query, tree: exp.Expr, stages: set[str]
) -> tuple[list[exp.CTE], list[exp.CTE]]:
    """The CTEs that a part of the tree needs, in order, and those of them that nothing else needs.

    Parameters
    ----------
    part
        A copy of what stands in `place`, or of some of it.
    stages
        The relations that can be read once.

    Raises
    ------
    NotPlanned
        One is needed elsewhere too, and might give other rows there when it runs twice.
    """
    needed: list[exp.CTE] = []
    for cte in reversed(visible_ctes(place)):
        if any(tables_named(query, cte.alias) for query in (part, *(other.this for other in needed))):
            needed.insert(0, cte)
    only_here: list[exp.CTE] = []
    for cte in reversed(needed):
        itself = tables_named(cte.this, cte.alias)
        inside = sum(tables_named(query, cte.alias) for query in (part, *(other.this for other in only_here)))
        if tables_named(tree, cte.alias) - itself == inside:
            only_here.append(cte)
        elif not _gives_the_same_again(cte, stages):
            raise NotPlanned(f"the CTE {cte.alias} is read elsewhere too")
    return needed, only_here


def with_taken(part: exp.Query, needed: Iterable[exp.CTE]) -> exp.Query:
    """A part with the CTEs that it needs."""
    return with_ctes(part, list(needed))


def drop(ctes: Iterable[exp.CTE]) -> None:
    """Take CTEs out of the tree."""
    for cte in ctes:
        clause = cte.parent
        assert isinstance(clause, exp.With)
        clause.set("expressions", [other for other in clause.expressions if other is not cte])
        if not clause.expressions:
            clause.pop()


def materialize(query: exp.Query, stages: set[str]) -> None:
    """Have DuckDB run each CTE over a stage once, since a stage can be read once."""
    over_stage: set[str] = set()
    for clause in query.find_all(exp.With):
        for cte in clause.expressions:
            tables = {table.name for table in cte.this.find_all(exp.Table)}
            if tables & stages or {fold(name) for name in tables} & over_stage:
                over_stage.add(fold(cte.alias))
                reads = [table for table in query.find_all(exp.Table) if fold(table.name) == fold(cte.alias)]
                if len(reads) > 1 or any(not _streams(table) for table in reads):
                    cte.set("materialized", True)


def _gives_the_same_again(cte: exp.CTE, stages: set[str]) -> bool:
    body = cte.this
    if any(table.name in stages for table in body.find_all(exp.Table)):
        return False
    if cte.args.get("materialized") or markers_in(body) or is_volatile(body) or tables_named(body, cte.alias):
        return False
    unsteady = (exp.Limit, exp.Offset, exp.TableSample, exp.Window, exp.Distinct, exp.Group)
    return body.find(*unsteady) is None and not any(map(is_aggregate, body.walk()))


def _streams(table: exp.Expr) -> bool:
    """Whether a source is read by the rows of the query around it, and not within an expression."""
    node = table
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, (exp.From, exp.Join)) and node.arg_key != "this":
            return False
        if not isinstance(parent, (exp.From, exp.Join, exp.Subquery, exp.Select, exp.SetOperation, exp.CTE, exp.With)):
            return False
        if isinstance(parent, exp.Select) and node.arg_key not in {"from_", "joins", "with_"}:
            return False
        node = parent
    return True
