"""Whether a query reads known tables and nothing else, whose columns may change unseen: files, functions that give rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.tree_nodes import nodes_of

_OTHERS = frozenset({"TABLE_FUNCTION", "SHOW_REF"})


def reads_only(tree: object, tables: Iterable[str]) -> bool:
    """Say so of DuckDB's own reading of a query, as `ReadTree` gives it; False where there is none."""
    nodes = list(nodes_of(tree))
    entries = [entry for node in nodes if "cte_map" in node for entry in node["cte_map"]["map"]]
    known = {fold(name) for name in (*tables, *(entry["key"] for entry in entries))}
    return bool(nodes) and all(_is_known(node, known) for node in nodes)


def _is_known(node: Mapping[str, Any], known: set[str]) -> bool:
    kind = node.get("type")  # that of a constant is a mapping
    if kind != "BASE_TABLE":
        return not isinstance(kind, str) or kind not in _OTHERS
    return fold(node["table_name"]) in known and not (node["schema_name"] or node["catalog_name"])
