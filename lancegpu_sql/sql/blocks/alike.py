"""What DuckDB takes for one expression because it is written alike, even where each evaluation may give another value.

A part that is written like a key of GROUP BY is that key; a key of ORDER BY or DISTINCT ON that is written like an item
of the SELECT list is that item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import is_aggregate, is_volatile, markers_in, same_key
from lancegpu_sql.sql.blocks.marked import Marked


def unite(block: Block) -> None:
    """Make the calls of what is one expression copies of one call."""
    keys = _with_calls(block, block.group_keys())
    for part in _outside_aggregates(block) if keys else ():
        _become(part, keys, block.marked)
    items = _with_calls(block, (item.unalias() for item in block.items if not _gives_the_same_again(block, item)))
    for part in _whole_keys(block) if items else ():
        _become(part, items, block.marked)


def _with_calls(block: Block, parts: Iterable[exp.Expr]) -> Mapping[str, exp.Expr]:
    """The first of each expression with calls, by how it is written."""
    found = dict[str, exp.Expr]()
    for part in parts:
        if markers_in(part):
            found.setdefault(_as_written(part, block.marked), part)
    return found


def _gives_the_same_again(block: Block, item: exp.Expr) -> bool:
    return not is_volatile(item) and all(map(block.marked.is_deterministic, markers_in(item)))


def _outside_aggregates(block: Block) -> Iterator[exp.Expr]:
    """The parts of an aggregated block that are the same for all rows of a group."""
    for clause in ("group", "expressions", "having", "qualify", "windows", "order"):
        for root in block.clause(clause):
            nodes = root.walk(prune=lambda node: is_aggregate(node) or isinstance(node, exp.Query))
            yield from [node for node in nodes if not _is_no_expression(node)]


def _is_no_expression(node: exp.Expr) -> bool:
    """Whether a node is written like an expression, and is a part of one: a branch of CASE, a key with its direction."""
    return isinstance(node, exp.Ordered) or (isinstance(node, exp.If) and isinstance(node.parent, exp.Case))


def _whole_keys(block: Block) -> Iterator[exp.Expr]:
    for root in block.clause("order"):
        yield from [ordered.this for ordered in root.expressions]
    for root in block.clause("distinct"):
        on = root.args.get("on")
        yield from list(on.expressions) if on is not None else ()


def _become(part: exp.Expr, others: Mapping[str, exp.Expr], marked: Marked) -> None:
    """Make a part a copy of what is written like it."""
    other = others.get(_as_written(part, marked)) if markers_in(part) else None
    if other is not None and part is not other:
        part.replace(other.copy())


def _as_written(node: exp.Expr, marked: Marked) -> str:
    """A text that two expressions share if they call the same Functions in the same way."""
    copy = node.unnest().copy()
    for marker in markers_in(copy):
        marker.set("this", f"call of {marked.function(marker)}")
    return same_key(copy)
