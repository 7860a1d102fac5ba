"""Columns of subqueries whose names hold calls: they get the names that DuckDB gives them as they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb

from lancegpu_sql.query.private_names import holds_private
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.select_items import select_items


class InnerNames:
    """Names items that call Functions; an item is looked at once.

    Parameters
    ----------
    cursor
        A connection to ask how DuckDB reads an item.
    as_written
        Puts the Functions' own names into words of DuckDB's.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, as_written: Callable[[str], str]) -> None:
        self._cursor = cursor
        self._as_written = as_written
        self._names: dict[str, str | None] = {}
        self._given: set[str] = set()

    def given(self, text: str) -> str:
        """A text in which no name of a subquery's column holds a private name."""
        if not holds_private(text):
            return text
        written = text
        spans = [(start, end) for start, end in select_items(text) if holds_private(text[start:end])]
        for start, end in sorted(spans, key=lambda span: span[1], reverse=True):
            name = self._name(text[start:end])
            if name is not None:
                alias = f" AS {quote(name)}"
                if alias not in written:
                    self._given.add(alias)
                text = f"{text[:end]}{alias}{text[end:]}"
        return text

    def taken_out(self, words: str) -> str:
        """What DuckDB says, without names that were given: it writes out a subquery in a window that has a name."""
        for alias in self._given:
            words = words.replace(alias, "")
        return words

    def _name(self, item: str) -> str | None:
        """The name of an item without one; None where it has one, or stands for several columns."""
        if item not in self._names:
            self._names[item] = self._asked(item)
        return self._names[item]

    def _asked(self, item: str) -> str | None:
        try:
            ((tree,),) = self._cursor.execute("SELECT json_serialize_sql($1)", [f"SELECT {item}"]).fetchall()
            read = json.loads(tree)
            if read["error"]:
                return None
            (node,) = read["statements"][0]["node"]["select_list"]
            if node["alias"] or _is_several(node):
                return None
            ((text,),) = self._cursor.execute("SELECT json_deserialize_sql($1::JSON)", [tree]).fetchall()
        except (duckdb.Error, KeyError, ValueError):
            return None  # it keeps a name that nobody can write
        return self._as_written(text.removeprefix("SELECT "))


def _is_several(node: Any) -> bool:
    """Whether an expression, queries in it aside, has a star."""
    if isinstance(node, list):
        return any(map(_is_several, node))
    if not isinstance(node, dict) or node.get("class") == "SUBQUERY":
        return False
    return node.get("class") == "STAR" or any(map(_is_several, node.values()))
