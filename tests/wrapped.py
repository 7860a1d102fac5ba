"""Queries in which columns and literals are handed through Functions that give back what they get.

The text is edited, not written anew: a wrapped query is what a user might have typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import as_function
from lancegpu_sql.sql.names import fold


def identity(name: str, kind: pa.DataType) -> Function:
    """Return a Function that gives back what it gets."""

    def same(batch: pa.RecordBatch) -> pa.Array:
        return batch.column(0)

    schema = pa.schema([("x", kind)])
    return as_function(same, name, input_schema=schema, output_schema=schema)


@dataclass(frozen=True)
class Site:
    """What can be wrapped together: one place, or every mention of a key of GROUP BY in its block, which must be alike.

    Attributes
    ----------
    what
        For people.
    spans
        Where, in the text.
    kind
        Its type in DuckDB.
    names
        Of each span, the name that the column of the result would lose.
    clause
        The part of its block that it stands in: ``expressions`` is the SELECT list.
    in_first_block, in_condition
        Whether that block is no subquery, or one of a condition.
    is_column
        Or else a literal.
    """

    what: str
    spans: tuple[tuple[int, int], ...]
    kind: str
    names: tuple[str | None, ...]
    clause: str
    in_first_block: bool
    in_condition: bool
    is_column: bool


def sites(text: str, connection: duckdb.DuckDBPyConnection) -> list[Site]:
    """What can be wrapped in a query.

    Parameters
    ----------
    connection
        Where its tables are.
    """
    tree = sqlglot.parse_one(text, dialect="duckdb")
    found: list[Site] = []
    for select in tree.find_all(exp.Select):
        found += _Block(text, select, connection).sites()
    return sorted(found, key=lambda site: site.spans)


def wrapped(text: str, chosen: Sequence[Site]) -> str:
    """The text with some of its places wrapped."""
    edits = [
        (start, end, name, site.kind)
        for site in chosen
        for (start, end), name in zip(site.spans, site.names, strict=True)
    ]
    for start, end, name, kind in sorted(edits, reverse=True):
        alias = "" if name is None else f" AS {name}"
        text = f"{text[:start]}{name_for(kind)}({text[start:end]}){alias}{text[end:]}"
    return text


def name_for(kind: str) -> str:
    """The name of the Function for a DuckDB type."""
    return "same_" + re.sub(r"\W+", "_", kind.lower()).strip("_")


def functions_for(chosen: Sequence[Site]) -> list[Function]:
    """The Functions that some places need."""
    return [identity(name_for(kind), arrow_type(kind)) for kind in sorted({site.kind for site in chosen})]


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a DuckDB type."""
    connection = duckdb.connect()
    connection.execute("SET arrow_lossless_conversion = true")
    made: pa.DataType = connection.sql(f"SELECT NULL::{kind}").to_arrow_table().schema.types[0]
    return made


class _Block:
    """One SELECT, without those in it."""

    def __init__(self, text: str, select: exp.Select, connection: duckdb.DuckDBPyConnection) -> None:
        self._text, self._select, self._connection = text, select, connection

    def sites(self) -> Iterator[Site]:
        keys = self._group_keys()
        grouped: dict[str, list[exp.Column]] = {key: [] for key in keys}
        for node in self._own():
            if isinstance(node, exp.Column):
                if self._is_alias(node):
                    continue
                if fold(node.name) in grouped and not self._in_aggregate(node):
                    grouped[fold(node.name)].append(node)
                else:
                    yield self._site(node.sql(), [node], self._kind_of(node))
            elif isinstance(node, exp.Literal) and self._may_be_called(node):
                yield self._site(node.sql(), [node], str(self._connection.sql(f"SELECT {node.sql()}").types[0]))
        for key, nodes in grouped.items():
            if nodes:
                yield self._site(f"key {key}", nodes, self._kind_of(nodes[0]))

    def _site(self, what: str, nodes: Sequence[exp.Expr], kind: str) -> Site:
        nodes = sorted(nodes, key=lambda node: _span(node)[0])
        first, condition = self._select.parent is None, self._select.find_ancestor(exp.Where, exp.Having) is not None
        column = isinstance(nodes[0], exp.Column)
        names = tuple(map(self._lost_name, nodes))
        return Site(what, tuple(map(_span, nodes)), kind, names, self._clause_of(nodes[0]), first, condition, column)

    def _clause_of(self, node: exp.Expr) -> str:
        while node.parent is not self._select:
            assert node.parent is not None
            node = node.parent
        return str(node.arg_key)

    def _lost_name(self, node: exp.Expr) -> str | None:
        return node.name if isinstance(node, exp.Column) and node.parent is self._select else None

    def _own(self) -> Iterator[exp.Expr]:
        """The nodes of the block's own clauses."""
        return self._select.walk(
            prune=lambda node: node is not self._select and isinstance(node, (exp.Select, exp.From, exp.CTE))
        )

    def _group_keys(self) -> set[str]:
        group = self._select.args.get("group")
        keys = group.expressions if group else []
        return {fold(key.name) for key in keys if isinstance(key, exp.Column)}

    def _is_alias(self, column: exp.Column) -> bool:
        """Whether a name means an item of the SELECT list."""
        aliases = {fold(item.alias) for item in self._select.expressions if isinstance(item, exp.Alias)}
        return not column.table and fold(column.name) in aliases

    def _in_aggregate(self, node: exp.Expr) -> bool:
        found = node.find_ancestor(exp.AggFunc, exp.Select)
        return isinstance(found, exp.AggFunc)

    def _may_be_called(self, literal: exp.Literal) -> bool:
        """Whether an expression may stand there."""
        if isinstance(literal.parent, (exp.Limit, exp.Interval)):
            return False
        start, _ = _span(literal)
        return not re.search(r"\bdate\s*\Z", self._text[:start], re.IGNORECASE)

    def _kind_of(self, column: exp.Column) -> str:
        """The type of a column: of a table, or of a query in FROM, of this block or of one around it."""
        select: exp.Expr | None = self._select
        while isinstance(select, exp.Select):
            for source in self._sources(select):
                if column.table and fold(source.alias_or_name) != fold(column.table):
                    continue
                kind = self._columns_of(source).get(fold(column.name))
                if kind is not None:
                    return kind
            select = select.parent_select
        raise AssertionError(f"no source has {column.sql()}")

    def _sources(self, select: exp.Select) -> list[exp.Expr]:
        return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]

    def _columns_of(self, source: exp.Expr) -> dict[str, str]:
        inner: exp.Expr = source.this
        if isinstance(source, exp.Table):
            with_ = self._select.root().args.get("with_")
            of_name = {fold(cte.alias): cte.this for cte in with_.expressions} if with_ else {}
            if fold(source.name) not in of_name:
                return self._described(f"FROM {source.name}")
            inner = of_name[fold(source.name)]
        columns = self._described(inner.sql("duckdb"))
        alias = source.args.get("alias")
        renamed = [fold(each.name) for each in alias.args.get("columns") or []] if alias else []
        return dict(zip(renamed, columns.values(), strict=True)) if renamed else columns

    def _described(self, text: str) -> dict[str, str]:
        relation = self._connection.sql(text)
        return {fold(name): str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}


def _span(node: exp.Expr) -> tuple[int, int]:
    """Where a column or literal stands."""
    if isinstance(node, exp.Column):
        parts = [part.meta for part in node.parts]
        return parts[0]["start"], parts[-1]["end"] + 1
    return node.meta["start"], node.meta["end"] + 1
