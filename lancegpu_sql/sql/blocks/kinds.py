"""What an expression is made of: aggregates, windows, subqueries, what changes from row to row, calls of Functions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lancegpu_sql.functions.names import duckdb_names
from lancegpu_sql.sql.blocks.dialect import written
from lancegpu_sql.sql.names import fold

# DuckDB's aggregates, and its macros over them; tests/unit/sql/blocks/test_kinds.py compares them with DuckDB's own.
_AGGREGATES = """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
    arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and
    bit_or bit_xor bitstring_agg bool_and bool_or combine_aggr corr count count_if count_star countif
    covar_pop covar_samp decimal_average entropy favg first fsum geomean geometric_mean group_concat
    histogram histogram_exact json_group_array json_group_object json_group_structure kahan_sum kurtosis
    kurtosis_pop last list listagg lttb mad max max_by mean median min min_by mode product quantile
    quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop stddev_samp string_agg
    sum sum_no_overflow sumkahan var_pop var_samp variance variant_group_array variant_group_object wavg
    weighted_avg
"""
_VOLATILE = """
    current_connection_id current_query current_query_id current_transaction_id currval error
    gen_random_uuid nextval random setseed setval sleep_ms stats uuid uuidv4 uuidv7 vector_type
    write_log
"""
AGGREGATES = frozenset(_AGGREGATES.split())
VOLATILE = frozenset(_VOLATILE.split())
# What tells groups of several sets apart.
GROUPINGS = frozenset({"grouping", "grouping_id"})
# One row of them may become several, or none.
_EXPANDING = frozenset({"unnest", "unlist", "explode", "generate_subscripts"})
# They stand around an aggregate and belong to it.
_AROUND_AGGREGATE = (exp.Filter, exp.WithinGroup)

MARKER = "lancegpu_call_"
ALONE = "lancegpu_alone"  # in a column's meta: there is one table, whose name before the column says nothing


def is_marker(node: exp.Expr) -> bool:
    """Whether a node is a call of a Function, under the name that stands for that call."""
    return isinstance(node, exp.Anonymous) and str(node.this).startswith(MARKER)


def markers_in(node: exp.Expr) -> list[exp.Anonymous]:
    """The calls of Functions in an expression, at any depth."""
    return [found for found in node.find_all(exp.Anonymous) if is_marker(found)]


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """An expression's nodes without those of subqueries in it, whose roots are given."""
    return node.walk(prune=lambda found: isinstance(found, exp.Query) and found is not node)


def function_name(node: exp.Expr | None) -> str:
    """The folded name that DuckDB knows a function by; empty for what is none."""
    if isinstance(node, exp.Anonymous):
        return fold(node.name)
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Cast, exp.Case)):
        kind = type(node)
        if kind not in _NAMES:
            _NAMES[kind] = fold(node.sql(dialect="duckdb").partition("(")[0])
        return _NAMES[kind]
    return ""


_NAMES: dict[type[exp.Expr], str] = {}  # one name for each class; writing one takes a while


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate with what belongs to it, and not the function of a window."""
    if isinstance(node, _AROUND_AGGREGATE):
        return is_aggregate(node.this)
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return False
    if isinstance(node.parent, _AROUND_AGGREGATE) and node.arg_key == "this" and _of_window(node.parent):
        return False
    return isinstance(node, exp.AggFunc) or function_name(node) in AGGREGATES


def _of_window(node: exp.Expr) -> bool:
    while isinstance(node.parent, _AROUND_AGGREGATE):
        node = node.parent
    return isinstance(node.parent, exp.Window)


def is_unknown(node: exp.Expr) -> bool:
    """Whether a node calls what neither DuckDB nor the database has: a macro, of which nothing is known."""
    if not isinstance(node, exp.Anonymous) or is_marker(node) or _of_window(node):
        return False
    name = function_name(node)
    return name not in duckdb_names() and name not in GROUPINGS


def is_volatile(node: exp.Expr) -> bool:
    """Whether an expression may differ each time it is evaluated, subqueries included."""
    return any(function_name(found) in VOLATILE or is_unknown(found) for found in node.find_all(exp.Func))


def is_expanding(node: exp.Expr) -> bool:
    """Whether a node makes other than one row of one."""
    return isinstance(node, (exp.Unnest, exp.Explode)) or function_name(node) in _EXPANDING


def is_star(node: exp.Expr) -> bool:
    """Whether an expression stands for any number of columns; the one of ``count(*)`` does not."""
    return any(
        isinstance(found, exp.Columns) or (isinstance(found, exp.Star) and function_name(found.parent) != "count")
        for found in own_nodes(node)
    )


def has_subquery(node: exp.Expr) -> bool:
    """Whether an expression holds a query."""
    return node.find(exp.Query) is not None


def named(node: exp.Expr, name: str, *, quoted: bool = False) -> exp.Alias:
    """An expression as an item with a name; a subquery, too, which sqlglot would name as one in FROM."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=quoted))


def same_key(node: exp.Expr) -> str:
    """A text that two expressions share if they mean the same in one place: case of names aside."""
    copy = node.copy()
    for column in list(copy.find_all(exp.Column)):
        if column.meta.get(ALONE):
            column.set("table", None)
    for name in copy.find_all(exp.Identifier):
        name.set("this", fold(name.this))
        name.set("quoted", True)
    return written(copy)
