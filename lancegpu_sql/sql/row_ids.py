"""``_rowid``, by which errors name a row: a query may read it from any table though no star gives it.

A table whose row ids a query reads stands in it under another name, by which its rows come with them. In the SELECT that reads
it so, stars leave them out; all others read the table as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.sql.blocks.kinds import own_nodes
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.tokens import Token, TokenType, tokens_of

ROW_ID = "_rowid"
_WITH_IDS = f" (with {ROW_ID})"

# What is explained is one word to sqlglot, which warns of it.
_EXPLAINS = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)

_AROUND_STAR = (exp.Columns, exp.Count, exp.Like, exp.ILike, exp.Glob)

Edit = tuple[int, int, str]


def with_row_ids(text: str, is_table: Callable[[str], bool]) -> str:
    """A query in which each table whose row ids it reads has the name `name_with_row_ids`.

    Beside what would take them for a column like others they are not to be had: a NATURAL JOIN, a PIVOT, COLUMNS of what is no
    star, a row as a whole. There, and in a text that cannot be read, all stays as it is.

    Parameters
    ----------
    is_table
        Whether a name means a table that has row ids, and no column of that name.
    """
    if ROW_ID not in fold(text) or _EXPLAINS.match(text):
        return text
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return text
    scopes = {id(select): _Scope.of(select, is_table) for select in tree.find_all(exp.Select)}
    for column in tree.find_all(exp.Column):
        if fold(column.name) == ROW_ID and column.arg_key != "except_":
            _want(column, scopes)
    edits = [edit for scope in scopes.values() if scope.wanted and scope.is_plain() for edit in scope.edits(text)]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def name_with_row_ids(name: str) -> str:
    """What a table is called in a query that reads its row ids, too."""
    return name + _WITH_IDS


def name_without_row_ids(name: str) -> str:
    """The name of a table that `name_with_row_ids` stands for, and any other name as it is."""
    return name.removesuffix(_WITH_IDS)


def reads_row_ids(text: str) -> bool:
    """Whether a text is one of `with_row_ids` that reads them."""
    return _WITH_IDS in text


@dataclass
class _Scope:
    """One SELECT: the tables in its FROM that have row ids, by the folded names of their columns' owner."""

    select: exp.Select
    tables: dict[str, exp.Table]
    sources: list[exp.Expr]
    unseen: set[str]  # of the right of a SEMI or ANTI JOIN stars give nothing
    wanted: dict[str, exp.Table] = field(default_factory=dict)

    @classmethod
    def of(cls, select: exp.Select, is_table: Callable[[str], bool]) -> _Scope:
        found = list(_sources(select))
        tables = {fold(source.alias_or_name): source for source, _ in found if isinstance(source, exp.Table)}
        return cls(
            select,
            {alias: table for alias, table in tables.items() if _means_a_table(table) and is_table(table.name)},
            [source for source, _ in found],
            {fold(source.alias_or_name) for source, seen in found if not seen},
        )

    def is_plain(self) -> bool:
        """Whether nothing but a star would take row ids for a column like others."""
        joins = [join for root in self._roots() for join in root.find_all(exp.Join)]
        if any(join.method == "NATURAL" for join in joins) or any(one.args.get("pivots") for one in self.sources):
            return False
        return not any(map(self._takes_all, self._nodes()))

    def edits(self, text: str) -> Iterator[Edit]:
        for table in self.wanted.values():
            name = table.this
            alias = "" if table.alias else f" AS {quote(name.name)}"
            yield name.meta["start"], name.meta["end"] + 1, quote(name_with_row_ids(name.name)) + alias
        for star in self._nodes():
            if isinstance(star, exp.Star) and not isinstance(star.parent, exp.Count):
                left_out = self._left_out(star)
                if left_out and not any(_is_row_id(each) for each in star.args.get("except_") or ()):
                    yield from _excluding(text, star, left_out, next(iter(self.wanted.values())))

    def _roots(self) -> list[exp.Expr]:
        return [root for root in (self.select.args.get("from_"), *(self.select.args.get("joins") or ())) if root]

    def _nodes(self) -> Iterator[exp.Expr]:
        return (node for root in self.select.iter_expressions() for node in own_nodes(root))

    def _left_out(self, star: exp.Star) -> list[str]:
        """What a star must leave out."""
        if isinstance(star.parent, exp.Column):
            return [ROW_ID] if fold(star.parent.table) in self.wanted else []
        shown = [table for alias, table in self.wanted.items() if alias not in self.unseen]
        if len(self.sources) == 1:
            return [ROW_ID]
        return [f"{quote(table.alias_or_name)}.{ROW_ID}" for table in shown]

    def _takes_all(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Star):
            around = node.parent.parent if isinstance(node.parent, exp.Column) else node.parent
            return around is not self.select and not isinstance(around, _AROUND_STAR)
        if isinstance(node, exp.Columns):
            return not isinstance(node.this.this if isinstance(node.this, exp.Column) else node.this, exp.Star)
        return isinstance(node, exp.Column) and not node.table and fold(node.name) in self.wanted


def _want(column: exp.Column, scopes: dict[int, _Scope]) -> None:
    """Note of which tables a column may be the row id: those of the nearest SELECT around it that has such."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        tables = scopes[id(select)].tables
        meant = {alias: table for alias, table in tables.items() if fold(column.table) in ("", alias)}
        if meant:
            scopes[id(select)].wanted.update(meant)
            return
        select = select.find_ancestor(exp.Select)


def _sources(select: exp.Select) -> Iterator[tuple[exp.Expr, bool]]:
    """What stands in the FROM of a SELECT, and whether stars give its columns."""
    start = select.args.get("from_")
    if start is not None:
        yield from _joined(start.this, seen=True)
    for join in select.args.get("joins") or ():
        yield from _joined(join.this, seen=join.kind not in ("SEMI", "ANTI"))
    yield from ((lateral, True) for lateral in select.args.get("laterals") or ())


def _joined(source: exp.Expr, *, seen: bool) -> Iterator[tuple[exp.Expr, bool]]:
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table) and not source.alias:
        yield from _joined(source.this, seen=seen)  # in brackets
    else:
        yield source, seen
    for join in source.args.get("joins") or ():
        yield from _joined(join.this, seen=seen and join.kind not in ("SEMI", "ANTI"))


def _means_a_table(table: exp.Table) -> bool:
    """Whether no CTE is meant, nor a function, a file or another database's table."""
    if not isinstance(table.this, exp.Identifier) or table.db:
        return False
    part: exp.Expr = table
    while part.parent is not None:
        if any(fold(cte.alias) == fold(table.name) for cte in _ctes_for(part)):
            return False
        part = part.parent
    return True


def _ctes_for(part: exp.Expr) -> list[exp.CTE]:
    """The CTEs beside which a part of a query stands that it may name: for one of them those before it."""
    if isinstance(part.parent, exp.With):
        ctes = list(part.parent.expressions)
        return ctes[: ctes.index(part) + bool(part.parent.args.get("recursive"))]
    clause = part.parent and part.parent.args.get("with_")
    return [] if clause is None or clause is part else list(clause.expressions)


def _is_row_id(left_out: exp.Expr) -> bool:
    return isinstance(left_out, exp.Column) and fold(left_out.name) == ROW_ID


def _excluding(text: str, star: exp.Star, names: list[str], table: exp.Table) -> Iterator[Edit]:
    """Edits by which a star leaves out columns, beside those that it leaves out already."""
    listed = ", ".join(names)
    start = star.meta["start"]
    if text[start : start + 1] != "*":  # FROM alone means SELECT *
        place = _from_before(tokens_of(text), table.this.meta["start"])
        yield place, place, f"SELECT * EXCLUDE ({listed}) "
        return
    others = star.args.get("except_") or ()
    if not others:
        yield start + 1, start + 1, f" EXCLUDE ({listed})"
        return
    first, last = others[0].parts[0].meta["start"], others[-1].parts[-1].meta["end"] + 1
    if text[start:first].rstrip().endswith("("):
        yield first, first, f"{listed}, "
    else:
        yield first, last, f"({listed}, {text[first:last]})"


def _from_before(tokens: list[Token], place: int) -> int:
    """Where the FROM begins in which something stands."""
    depth = 0
    for token in reversed([token for token in tokens if token.start < place]):
        depth += (token.token_type is TokenType.R_PAREN) - (token.token_type is TokenType.L_PAREN)
        if token.token_type is TokenType.FROM and depth <= 0:
            return token.start
    return place
