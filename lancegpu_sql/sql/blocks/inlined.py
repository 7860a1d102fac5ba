"""A plan as one query again, in which the stages are CTEs and every call is made in place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.stages import PlannedCall, Stage


def inlined(tree: exp.Query, stages: Sequence[tuple[Stage, exp.Query]], marked: Marked) -> exp.Query:
    """The query that a plan is the same as."""
    whole = tree.copy()
    ctes = [
        exp.CTE(this=_as_query(stage, query, marked), alias=exp.TableAlias(this=exp.to_identifier(stage.name)))
        for stage, query in stages
    ]
    clause = whole.args.get("with_")
    own = clause.expressions if clause is not None else []
    recursive = clause is not None and clause.args.get("recursive")
    whole.set("with_", exp.With(expressions=[*ctes, *own], recursive=recursive))
    return whole


def _as_query(stage: Stage, query: exp.Query, marked: Marked) -> exp.Select:
    items = [exp.column(name) for name in stage.carried]
    results = [exp.alias_(_as_call(call, marked), call.result) for call in stage.calls]
    source = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("input")))
    return exp.Select(expressions=[*items, *results], from_=exp.From(this=source))


def _as_call(call: PlannedCall, marked: Marked) -> exp.Expr:
    made = marked.call(call.function, [exp.column(argument) for argument in call.arguments])
    if call.try_:
        made = exp.Try(this=made)
    if call.mask is not None:
        made = exp.Case(ifs=[exp.If(this=exp.column(call.mask), true=made)])
    return made
