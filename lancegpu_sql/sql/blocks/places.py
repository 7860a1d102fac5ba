"""Where in a query a block stands, and whether a stage may take its place there."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import function_name, has_subquery, is_star
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.scopes import AsWritten, tables_named
from lancegpu_sql.sql.names import fold

# What may stand between a subquery and its SELECT: DuckDB evaluates it once. It writes the arguments of a macro, and the
# operand of a CASE, several times.
_ONCE = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
    exp.In,
    exp.Exists,
    exp.Any,
    exp.All,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Alias,
    exp.Where,
    exp.Having,
)


def check_place(select: exp.Select, written: AsWritten, tree: exp.Expr) -> None:
    """Refuse a block that DuckDB may run other than once, or not by itself.

    Raises
    ------
    NotPlanned
        With the reason.
    """
    parent: exp.Expr | None = select
    while parent is not None:
        if isinstance(parent, exp.CTE):
            _check_cte(parent, tree)
        parent = parent.parent
    node: exp.Expr = select
    while True:
        if isinstance(node, exp.Select) and written.columns(node) is None:
            raise NotPlanned("it stands in a subquery that is run for each row of another query")
        parent = node.parent
        if parent is None:
            return
        if isinstance(parent, exp.Select):
            _check_clause(node, parent)
        elif isinstance(parent, (exp.From, exp.Join)):
            if node.arg_key != "this":
                raise NotPlanned("it stands in a join's condition")
        elif not isinstance(parent, (exp.Subquery, exp.SetOperation, exp.CTE, exp.With, *_ONCE)):
            raise NotPlanned("it stands in an expression that DuckDB may evaluate several times")
        node = parent


def is_read(select: exp.Select, column: str, tree: exp.Expr) -> bool:
    """Whether a column of a derived table or CTE may be read; False only where it is certain that it is not."""
    if isinstance(select.parent, exp.Exists):
        return False
    around = select.parent
    if not isinstance(around, (exp.Subquery, exp.CTE)) or select.args.get("distinct"):
        return True
    if isinstance(around, exp.Subquery) and not isinstance(around.parent, (exp.From, exp.Join)):
        return True
    alias = around.args.get("alias")
    if (alias is not None and alias.args.get("columns")) or any(
        join.method == "NATURAL" for join in tree.find_all(exp.Join)
    ):
        return True
    inside = {id(node) for node in select.walk()}
    names = {fold(column)} | ({fold(alias.name)} if alias is not None else set())
    for node in tree.walk():
        if id(node) in inside or not isinstance(node, (exp.Star, exp.Columns, exp.Identifier)):
            continue
        if not isinstance(node, exp.Identifier):
            if function_name(node.parent) != "count":
                return True
        elif fold(node.name) in names and not _names_source(node, alias):
            return True
    return False


def _names_source(node: exp.Identifier, alias: exp.Expr | None) -> bool:
    """Whether a name is the derived table's own, or stands for it before a column or in a FROM."""
    parent = node.parent
    if isinstance(parent, (exp.TableAlias, exp.Table)):
        return True
    before_column = isinstance(parent, exp.Column) and node.arg_key == "table"
    return before_column and alias is not None and fold(node.name) == fold(alias.name)


def _check_clause(node: exp.Expr, select: exp.Select) -> None:
    if node.arg_key in {"from_", "joins", "with_", "where"}:
        return
    group = select.args.get("group")
    if group is not None and has_subquery(group):
        raise NotPlanned("it may be what its block is grouped by")
    if node.arg_key == "having":
        return
    if node.arg_key != "expressions":
        raise NotPlanned(f"it stands in {str(node.arg_key).upper()}")
    name = fold(node.alias)
    again = name and any(not column.table and fold(column.name) == name for column in select.find_all(exp.Column))
    if again or is_star(node):
        raise NotPlanned("the alias of its subquery is used again")


def _check_cte(cte: exp.CTE, tree: exp.Expr) -> None:
    if tables_named(cte.this, cte.alias):
        raise NotPlanned("it stands in a recursive CTE")
    if not _is_read_cte(cte, tree):
        raise NotPlanned(f"nobody reads the CTE {cte.alias}")


def _is_read_cte(cte: exp.CTE, tree: exp.Expr) -> bool:
    """Whether the query, or a CTE that is read, reads a CTE: DuckDB runs no other."""
    pending, seen = [cte], {id(cte)}
    while pending:
        name = fold(pending.pop().alias)
        for table in tree.find_all(exp.Table):
            around = table.find_ancestor(exp.CTE) if fold(table.name) == name else cte
            if around is None:
                return True
            if id(around) not in seen:
                seen.add(id(around))
                pending.append(around)
    return False
