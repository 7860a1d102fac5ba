"""Cutting a block in two: an inner query whose rows a stage computes on, and the rest of the block over the stage."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import CLAUSES, REF, Block
from lancegpu_sql.sql.blocks.inner import Inner
from lancegpu_sql.sql.blocks.kinds import (
    GROUPINGS,
    function_name,
    is_aggregate,
    is_expanding,
    is_star,
    named,
    same_key,
)
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.occurrences import Occurrence, grouping_of, in_groups, key_of, mask_of, occurrences
from lancegpu_sql.sql.blocks.wanted import Names, StageParts, Wanted
from lancegpu_sql.sql.stages import PlannedCall, Stage

_OCCURRENCE = "lancegpu_occurrence"


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
        self._stage = StageParts(names.new("stage"), names)
        self._names = names
        self._keys = {same_key(key) for key in block.group_keys()} if wanted.level == "groups" else set()
        self._aggregated = block.aggregated
        self._grouping = grouping_of(block)
        self._expands = any(occurrence.expands for occurrence in wanted.calls)
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
        inner = Inner(self._block, self._wanted, self._stage).query()
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
        if not self._aggregated:
            return result
        of_groups = in_groups(self._block, occurrence, self._grouping)
        return result if of_groups == (self._wanted.level == "groups") else None

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
                items.append(named(self._replaced(item.unalias()), names[0], quoted=True))
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
        if self._expands and is_expanding(node) and self._is_own(node):
            return True  # what makes several rows of one, all of it does at once
        if self._wanted.level == "windows":
            return isinstance(node, exp.Window) and isinstance(node.this, exp.Expr) and self._is_own(node)
        if self._wanted.level == "groups" and not isinstance(node, (exp.Literal, exp.Ordered)):
            grouping = function_name(node) in GROUPINGS
            found = is_aggregate(node) or grouping or (bool(self._keys) and same_key(node) in self._keys)
            return found and (self._is_own(node) or self._is_of_row_around(node))
        return False

    def _is_own(self, node: exp.Expr) -> bool:
        """Whether a node does not stand in a subquery."""
        return node.find_ancestor(exp.Query) is self._block.select

    def _is_of_row_around(self, node: exp.Expr) -> bool:
        """Whether a part of a subquery reads the block alone: DuckDB then takes an aggregate for one of the block."""
        columns = list(node.find_all(exp.Column))
        return bool(columns) and all(map(self._block.is_ref, columns))

    def _carry(self, node: exp.Expr) -> exp.Column:
        name = self._stage.input(node)
        self._stage.carried[name] = None
        return self._column(name)

    def _column(self, name: str) -> exp.Column:
        column = exp.column(name, table=self._stage.name)
        column.meta[REF] = self._block.number
        return column


def _protected(argument: exp.Expr, mask: exp.Expr | None) -> exp.Expr:
    """An argument that is evaluated only where the call sees it."""
    if mask is None or isinstance(argument, (exp.Column, exp.Literal)):
        return argument
    return exp.Case(ifs=[exp.If(this=mask.copy(), true=argument.copy())])
