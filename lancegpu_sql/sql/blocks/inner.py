"""The query that a stage reads: what of a block comes before its calls."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block, flat_keys
from lancegpu_sql.sql.blocks.kinds import named, same_key
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.wanted import StageParts, Wanted, conjuncts


class Inner:
    """Takes it out of a block, once it is known which columns the stage reads."""

    def __init__(self, block: Block, wanted: Wanted, stage: StageParts) -> None:
        self._block, self._wanted, self._stage = block, wanted, stage

    def query(self) -> exp.Select:
        """What the stage reads."""
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
        groups = self._block.clause("group")
        written = [key for group in groups for key in flat_keys(group)]
        in_sets = any(group.find(exp.GroupingSets, exp.Cube, exp.Rollup) is not None for group in groups)
        if in_sets and len(set(map(same_key, self._block.group_keys()))) < len(set(map(same_key, written))):
            raise NotPlanned("a key that it is grouped by stands there twice, once by its position or alias")
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
        inner.set("expressions", [named(expression.copy(), name) for name, expression in columns])
        if not stars:
            return inner
        inner.set("expressions", [*(item.copy() for item, _ in stars), *inner.expressions])
        names = [name for _, names in stars for name in names] + [name for name, _ in columns]
        alias = exp.TableAlias(
            this=exp.to_identifier(f"{self._stage.names.prefix}_rows"),
            columns=[exp.to_identifier(name) for name in names],
        )
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=inner, alias=alias)))


def _move(select: exp.Select, inner: exp.Select, key: str) -> None:
    value = select.args.get(key)
    if value:
        inner.set(key, [part.copy() for part in value] if isinstance(value, list) else value.copy())
