"""What the query of a materialized view is like, told by DuckDB's own reading of it, a tree of plain values.

A query is row-wise where each of its rows is made of one row of one table: then a view of it is refreshed row by row. Any
doubt makes it a query that runs again, which is always right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.sql.call_reader import TextCall
from lancegpu_sql.sql.call_sites import CLOSING, OPENING, word_of
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.tokens import Token, TokenType, tokens_of
from lancegpu_sql.sql.tree_nodes import nodes_of

# Table functions that give the same each time.
_PURE_TABLE_FUNCTIONS = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)
# Of one argument it counts from today; its name does not tell of how many it is called.
_ALSO_VOLATILE = frozenset({"age", "ago"})
# Words that are functions without brackets, where no column has such a name.
_BARE = frozenset(
    {"current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp"}
    | {"current_user", "localtime", "localtimestamp", "session_user", "user"}
)


@dataclass(frozen=True)
class EngineFunctions:
    """DuckDB's own functions by folded name: those that may give something else each time, and those of many rows."""

    volatile: frozenset[str]
    aggregates: frozenset[str]


def own_names(tree: object) -> frozenset[str]:
    """Return the folded names that a query's WITH gives."""
    maps = [node["cte_map"]["map"] for node in nodes_of(tree) if isinstance(node.get("cte_map"), dict)]
    return frozenset(fold(str(entry["key"])) for entries in maps for entry in entries)


def volatile_parts(tree: object, functions: EngineFunctions, ours: Collection[str]) -> tuple[str, ...]:
    """Return what in a query may give something else each time though no table changed, in people's words.

    Parameters
    ----------
    ours
        The registered Functions by folded name: they go before DuckDB's.
    """
    found: dict[str, None] = {}
    for node in nodes_of(tree):
        if node.get("sample"):
            found["a sample"] = None
        if node.get("type") == "TABLE_FUNCTION":
            name = fold(str(node["function"]["function_name"]))
            if name not in _PURE_TABLE_FUNCTIONS:
                found[f"{name}()"] = None
        if node.get("class") == "FUNCTION":
            name = fold(str(node["function_name"]))
            if name not in ours and (name in functions.volatile or name in _ALSO_VOLATILE):
                found[f"{name}()"] = None
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
            name = fold(str(node["column_names"][0]))
            if name in _BARE:
                found[name] = None
    return tuple(found)


def not_row_wise(text: str, tree: object, functions: EngineFunctions, ours: Collection[str]) -> str | None:
    """Return why rows of a query are not each made of one row of one table; None where they are."""
    statements = tree.get("statements", []) if isinstance(tree, dict) else []
    node = statements[0]["node"] if len(statements) == 1 else {}
    told = _more_than_rows(node)
    if told is not None:
        return told
    for part in [*nodes_of(node["select_list"]), *nodes_of(node["where_clause"])]:
        kind, name = part.get("class"), fold(str(part.get("function_name", "")))
        if kind == "WINDOW":
            return "it has a window"
        if kind == "SUBQUERY" or part.get("type") == "SELECT_NODE":
            return "it has a query inside"
        if kind == "STAR" and (part.get("columns") or part.get("expr")):
            return "it says COLUMNS"
        if kind == "FUNCTION" and name in functions.aggregates and name not in ours:
            return f"{name}() is of many rows"
    return None if _from_at(tokens_of(text)) is not None else "its FROM comes first"


def columns_read(tree: object, tables: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return of each table the columns that a query may read: those whose names are in it, or all where it takes all.

    Parameters
    ----------
    tables
        The columns of each.
    """
    nodes = list(nodes_of(tree))
    rows = {fold(str(node[key])) for node in nodes for key in ("table_name", "alias") if node.get(key)}
    takes_all = tree is None or any(
        node.get("class") == "STAR"
        or node.get("ref_type") == "NATURAL"
        or (
            node.get("class") == "COLUMN_REF"
            and len(node["column_names"]) == 1
            and fold(node["column_names"][0]) in rows
        )
        for node in nodes
    )
    words = {fold(word) for word in _names_in_lists(tree)}
    return {
        table: tuple(column for column in columns if takes_all or fold(column) in words)
        for table, columns in tables.items()
    }


def over_rows(text: str, table: str, names: Sequence[str]) -> str:
    """Return a row-wise query that reads another table in the place of its own, and gives further columns of it.

    Parameters
    ----------
    table
        The other table.
    names
        The columns, which come behind the query's own.
    """
    tokens = tokens_of(text)
    at = _from_at(tokens)
    assert at is not None
    last = at + 1
    while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT:
        last += 2
    after = tokens[last + 1] if last + 1 < len(tokens) else None
    has_alias = after is not None and word_of(after) != "WHERE" and after.token_type is not TokenType.SEMICOLON
    alias = "" if has_alias else f" AS {quote(tokens[last].text)}"
    before = text[: tokens[at - 1].end + 1]
    comma = "" if before.endswith(",") else ","
    behind = text[tokens[last].end + 1 :]
    return f"{before}{comma} {', '.join(map(quote, names))}\nFROM {quote(table)}{alias}{behind}"


def repeats_or_ends_early(text: str) -> bool:
    """Tell whether which calls a query makes may depend on what its calls give, though it has but one of them."""
    return any(word_of(token) in ("RECURSIVE", "LIMIT", "FETCH", "EXISTS", "TOP") for token in tokens_of(text))


def with_argument(text: str, calls: Sequence[TextCall], name: str, value: str) -> str:
    """Return a text in which some calls in it have one more argument, by its name: a column."""
    for at in sorted((call.close for call in calls), reverse=True):
        text = f"{text[:at]}, {name} := {quote(value)}{text[at:]}"
    return text


def _more_than_rows(node: dict[str, Any]) -> str | None:
    """Why a query is more than a SELECT of one table's rows."""
    if node.get("type") != "SELECT_NODE":
        return "it is more than one SELECT"
    if node["cte_map"]["map"]:
        return "it says WITH"
    if node["modifiers"]:
        return f"it says {_MODIFIERS.get(node['modifiers'][0]['type'], 'more than SELECT, FROM and WHERE')}"
    grouped = node["group_expressions"] or node["group_sets"] or node["having"]
    if grouped or node["aggregate_handling"] != "STANDARD_HANDLING":
        return "it groups rows"
    if node["qualify"]:
        return "it says QUALIFY"
    if node["sample"]:
        return "it takes a sample"
    table = node["from_table"] or {}
    if table.get("type") != "BASE_TABLE":
        return "it joins tables" if table.get("type") == "JOIN" else "it does not read a table as it is"
    if table["sample"] or table["at_clause"] or table["column_name_alias"]:
        return "it does not read a table as it is"
    return None


_MODIFIERS = {
    "DISTINCT_MODIFIER": "DISTINCT",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "ORDER_MODIFIER": "ORDER BY",
}


def _from_at(tokens: Sequence[Token]) -> int | None:
    """Where the FROM of a SELECT stands, outside of all brackets; that of IS DISTINCT FROM is another one."""
    if not tokens or word_of(tokens[0]) != "SELECT":
        return None
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0 and word_of(token) == "FROM" and word_of(tokens[index - 1]) != "DISTINCT":
            return index
    return None


def _names_in_lists(tree: object) -> Iterator[str]:
    """Every text in a list, as names of columns are: of a reference, of USING, of a PIVOT; a path is a table's or function's."""
    for node in nodes_of(tree):
        for key, value in node.items():
            if isinstance(value, list) and key != "path":
                yield from (one for one in value if isinstance(one, str))
