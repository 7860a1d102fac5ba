"""The nodes of DuckDB's own reading of a query, a tree of plain values that may be deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes_of(tree: object) -> Iterator[dict[str, Any]]:
    """Every mapping in a tree, in the order of the text."""
    left = [tree]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            left.extend(reversed(one))


def tables_in(tree: object) -> frozenset[str]:
    """The names that stand where tables stand, those of the query's own WITH among them."""
    return frozenset(str(node["table_name"]) for node in nodes_of(tree) if node.get("type") == "BASE_TABLE")
