"""Cutting a block in two: an inner query whose rows a stage computes on, and the rest of the block over the stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import CLAUSES, REF, Block
from lancegpu_sql.sql.blocks.kinds import (
    GROUPINGS,
    function_name,
    is_aggregate,
    is_marker,
    is_star,
    own_nodes,
    same_key,
)
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.occurrences import Occurrence, grouping_of, in_groups, key_of, mask_of, occurrences
from lancegpu_sql.sql.stages import PlannedCall, Stage

_OCCURRENCE = "lancegpu_occurrence"
Level = Literal["rows", "groups", "windows"]


class Names:
    """Fresh names of relations and columns, which stand nowhere in the query."""

    def __init__(self, text: str) -> None:
        self.prefix = "lancegpu"
        while self.prefix in text.lower():
            self.prefix += "_"
        self._counts = {kind: count(1) for kind in ("stage", "side", "in", "out")}

    def new(self, kind: Literal["stage", "side", "in", "out"]) -> str:
        return f"{self.prefix}_{kind}_{next(self._counts[kind])}"


@dataclass(frozen=True)
class Wanted:
    """Where a block is to be cut.

    Attributes
    ----------
    calls
        What the stage computes; identical calls elsewhere in the block are taken from it too.
    level
        What the stage's rows are: rows of FROM, groups, or rows with the values of windows.
    inside, outside
        Of the condition that filters at this level (WHERE, HAVING, QUALIFY), the parts before and after the stage.
    with_end
        Whether ORDER BY, LIMIT and OFFSET come before the stage.
    rule
        For people: what is done.
    """

    calls: tuple[Occurrence, ...]
    level: Level
    rule: str
    inside: tuple[exp.Expr, ...] = ()
    outside: tuple[exp.Expr, ...] = ()
    with_end: bool = False


@dataclass
class _Stage:
    name: str
    names: Names
    inputs: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    stars: list[tuple[exp.Expr, list[str]]] = field(default_factory=list)
    carried: dict[str, None] = field(default_factory=dict)

    def input(self, expression: exp.Expr) -> str:
        """The column of the input with an expression's value."""
        key = same_key(expression)
        if key not in self.inputs:
            self.inputs[key] = (self.names.new("in"), expression.copy())
        return self.inputs[key][0]


def cut(
    block: Block, wanted: Wanted, names: Names, item_names: Sequence[Sequence[str]]
) -> tuple[Stage, exp.Select, exp.Select]:
    """Cut a block.

    Parameters
    ----------
    item_names
        For each item the names of the columns that it stands for: several for a star.

    Returns
    -------
    tuple
        The stage without its SQL, the query that it reads, and what the block becomes.
    """
    return _Cutter(block, wanted, names).run(item_names)


class _Cutter:
    def __init__(self, block: Block, wanted: Wanted, names: Names) -> None:
        self._block, self._wanted = block, wanted
        self._stage = _Stage(names.new("stage"), names)
        self._names = names
        self._keys = {same_key(key) for key in block.group_keys()} if wanted.level == "groups" else set()
        self._grouping = grouping_of(block)
        self._results: dict[str, tuple[str, tuple[str, ...]]] = {}  # key -> result, texts of the masks it is made for
        self._taken: dict[int, str] = {}  # number of an occurrence -> result
        self._calls: list[PlannedCall] = []

    def run(self, item_names: Sequence[Sequence[str]]) -> tuple[Stage, exp.Select, exp.Select]:
        calls = occurrences(self._block)
        self._plan_calls()
        for number, occurrence in enumerate(calls):
            occurrence.node.meta[_OCCURRENCE] = number
            result = self._result_for(occurrence)
            if result is not None:
                self._taken[number] = result
        rest = self._rest(item_names)
        inner = self._inner()
        for occurrence in calls:
            occurrence.node.meta.pop(_OCCURRENCE, None)
        return Stage(self._stage.name, "", tuple(self._calls), tuple(self._stage.carried)), inner, rest

    # -- calls ----------------------------------------------------------------------------------------------------

    def _plan_calls(self) -> None:
        by_key: dict[str, list[Occurrence]] = {}
        for occurrence in self._wanted.calls:
            by_key.setdefault(key_of(self._block, occurrence), []).append(occurrence)
        for key, alike in by_key.items():
            masks = list({same_key(mask): mask for mask in map(mask_of, alike) if mask is not None}.values())
            if any(mask_of(occurrence) is None for occurrence in alike):
                masks = []
            mask = exp.or_(*masks, copy=True) if masks else None
            call = alike[0].call
            arguments = tuple(self._stage.input(_protected(part, mask)) for part in call.expressions)
            masked = None if mask is None else self._stage.input(mask)
            result = self._names.new("out")
            function = self._block.marked.function(call)
            self._calls.append(PlannedCall(result, function, arguments, masked, alike[0].is_try))
            self._results[key] = (result, tuple(map(same_key, masks)))

    def _result_for(self, occurrence: Occurrence) -> str | None:
        """The column that holds a call's result, where it holds it for every row that the call sees."""
        made = self._results.get(key_of(self._block, occurrence))
        if made is None:
            return None
        result, masks = made
        mask = mask_of(occurrence)
        if masks and (mask is None or same_key(mask) not in masks):
            return None
        of_groups = in_groups(self._block, occurrence, self._grouping)
        return result if of_groups == (self._wanted.level == "groups") or not self._block.aggregated else None

    # -- the rest -------------------------------------------------------------------------------------------------

    def _rest(self, item_names: Sequence[Sequence[str]]) -> exp.Select:
        select, level = self._block.select, self._wanted.level
        dropped = {
            "rows": {"where"},
            "groups": {"where", "group", "having"},
            "windows": {"where", "windows", "qualify"},
        }
        gone = dropped[level] | ({"order", "limit", "offset"} if self._wanted.with_end else set())
        rest = exp.Select(expressions=self._items(item_names))
        rest.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(self._stage.name))))
        if self._wanted.outside:
            condition = exp.and_(*(self._replaced(part) for part in self._wanted.outside), copy=False)
            rest.set("where", exp.Where(this=condition))
        for key in CLAUSES:
            value = select.args.get(key)
            if key == "expressions" or key in gone or not value:
                continue
            rest.set(
                key, [self._replaced(part) for part in value] if isinstance(value, list) else self._replaced(value)
            )
        return rest

    def _items(self, item_names: Sequence[Sequence[str]]) -> list[exp.Expr]:
        items: list[exp.Expr] = []
        for item, names in zip(self._block.items, item_names, strict=True):
            if is_star(item):
                columns = [self._names.new("in") for _ in names]
                self._stage.stars.append((item, columns))
                self._stage.carried.update(dict.fromkeys(columns))
                items += [
                    exp.alias_(self._column(column), name, quoted=True)
                    for column, name in zip(columns, names, strict=True)
                ]
            else:
                items.append(exp.alias_(self._replaced(item.unalias()), names[0], quoted=True))
        return items

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        copy = node.copy()
        copy.parent, copy.arg_key, copy.index = node.parent, node.arg_key, node.index
        replaced = copy.transform(self._visit, copy=False)
        assert isinstance(replaced, exp.Expr)
        if replaced is copy:
            replaced.parent = None
        return replaced

    def _visit(self, node: exp.Expr) -> exp.Expr:
        number = node.meta.get(_OCCURRENCE)
        if number in self._taken:
            return self._column(self._taken[number])
        if self._is_carried_whole(node):
            return self._carry(node)
        if self._block.is_ref(node):
            if self._wanted.level == "groups":
                raise NotPlanned("it reads a column that is not grouped")
            return self._carry(node)
        return node

    def _is_carried_whole(self, node: exp.Expr) -> bool:
        if self._wanted.level == "windows":
            return isinstance(node, exp.Window) and isinstance(node.this, exp.Expr)
        if self._wanted.level == "groups" and not isinstance(node, (exp.Literal, exp.Ordered)):
            grouping = function_name(node) in GROUPINGS
            return is_aggregate(node) or grouping or (bool(self._keys) and same_key(node) in self._keys)
        return False

    def _carry(self, node: exp.Expr) -> exp.Column:
        name = self._stage.input(node)
        self._stage.carried[name] = None
        return self._column(name)

    def _column(self, name: str) -> exp.Column:
        column = exp.column(name, table=self._stage.name)
        column.meta[REF] = self._block.number
        return column

    # -- the inner query ------------------------------------------------------------------------------------------

    def _inner(self) -> exp.Select:
        select, wanted = self._block.select, self._wanted
        inner = exp.Select()
        for key in ("from_", "joins", "laterals", "sample"):
            _move(select, inner, key)
        where = wanted.inside if wanted.level == "rows" else tuple(conjuncts(select, "where"))
        if where:
            inner.set("where", exp.Where(this=exp.and_(*(part.copy() for part in where), copy=False)))
        if wanted.level == "groups":
            self._group(inner)
        if wanted.level == "windows":
            _move(select, inner, "windows")
            if wanted.inside:
                inner.set("qualify", exp.Qualify(this=exp.and_(*(part.copy() for part in wanted.inside), copy=False)))
        if wanted.with_end:
            self._end(inner)
        return self._with_columns(inner)

    def _group(self, inner: exp.Select) -> None:
        if any(key.find(exp.Column) is None for key in self._block.group_keys()):
            raise NotPlanned("it is grouped by a constant, which would be taken for a position")
        for group in self._block.clause("group"):
            copy = group.copy()
            if group.args.get("all"):
                copy = exp.Group(expressions=[key.copy() for key in self._block.group_keys()])
            else:
                for part in list(copy.walk()):
                    found = self._key_for(part)
                    if found is not None:
                        part.replace(found.copy())
            if copy.expressions or any(copy.args.get(key) for key in ("grouping_sets", "cube", "rollup")):
                inner.set("group", copy)
        if self._wanted.inside:
            inner.set("having", exp.Having(this=exp.and_(*(part.copy() for part in self._wanted.inside), copy=False)))

    def _key_for(self, part: exp.Expr) -> exp.Expr | None:
        """What a whole key of GROUP BY means, where it is a position or an alias."""
        parent = part.parent
        while isinstance(parent, (exp.Paren, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)):
            parent = parent.parent
        return self._block.item_for(part, columns_first=True) if isinstance(parent, exp.Group) else None

    def _end(self, inner: exp.Select) -> None:
        select = self._block.select
        order = select.args.get("order")
        if order is not None:
            copy = order.copy()
            for written, ordered in zip(order.expressions, copy.expressions, strict=True):
                meant = self._block.item_for(written.this, columns_first=False)
                if meant is not None:
                    ordered.set("this", meant.copy())
            inner.set("order", copy)
        for key in ("limit", "offset"):
            _move(select, inner, key)

    def _with_columns(self, inner: exp.Select) -> exp.Select:
        columns = list(self._stage.inputs.values())
        if not columns and not self._stage.stars:
            columns = [(self._stage.input(exp.true()), exp.true())]  # a row must have something
        stars = self._stage.stars
        inner.set("expressions", [exp.alias_(expression, name) for name, expression in columns])
        if not stars:
            return inner
        inner.set("expressions", [*(item.copy() for item, _ in stars), *inner.expressions])
        names = [name for _, names in stars for name in names] + [name for name, _ in columns]
        alias = exp.TableAlias(
            this=exp.to_identifier(f"{self._names.prefix}_rows"), columns=[exp.to_identifier(name) for name in names]
        )
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=inner, alias=alias)))


def conjuncts(select: exp.Select, key: str) -> list[exp.Expr]:
    """The parts of a clause's condition."""
    clause = select.args.get(key)
    return conjuncts_of(clause.this) if clause is not None else []


def conjuncts_of(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all be true, in their order."""
    parts: list[exp.Expr] = []
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And):
            pending += [part.expression, part.this]
        elif isinstance(part, exp.Paren) and isinstance(part.this, exp.And):
            pending.append(part.this)
        else:
            parts.append(part)
    return parts


def _protected(argument: exp.Expr, mask: exp.Expr | None) -> exp.Expr:
    """An argument that is evaluated only where the call sees it."""
    if mask is None or isinstance(argument, (exp.Column, exp.Literal)):
        return argument
    return exp.Case(ifs=[exp.If(this=mask.copy(), true=argument.copy())])


def _move(select: exp.Select, inner: exp.Select, key: str) -> None:
    value = select.args.get(key)
    if value:
        inner.set(key, [part.copy() for part in value] if isinstance(value, list) else value.copy())


def has_calls(node: exp.Expr, calls: Iterable[Occurrence]) -> bool:
    """Whether some of these calls stand in an expression."""
    nodes = {id(occurrence.call) for occurrence in calls}
    return any(is_marker(found) and id(found) in nodes for found in own_nodes(node))
