"""DuckDB's dialect as sqlglot has it, and what it would lose on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.duckdb import DuckDBParser

_NULLS = "lancegpu_nulls"
# Whose arguments are not all evaluated, or that stand for other than one value.
_UNDERSTOOD = ("COALESCE", "IFNULL", "IF", "TRY", "UNNEST", "COLUMNS")
# Whose arguments are written with words between them.
_WITH_SYNTAX = frozenset({"CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM", "POSITION", "OVERLAY"})


class Written(DuckDB):
    """Keeps functions under the names that they are called by, which sqlglot exchanges for its own.

    And keeps NULLS FIRST and NULLS LAST where they are written, and only there: settings say what holds elsewhere.
    """

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        return path

    class Parser(DuckDBParser):
        FUNCTIONS: ClassVar = {name: DuckDBParser.FUNCTIONS[name] for name in _UNDERSTOOD}
        FUNCTION_PARSERS: ClassVar = {
            name: parser for name, parser in DuckDBParser.FUNCTION_PARSERS.items() if name in _WITH_SYNTAX
        }

        def _parse_ordered(self, parse_method: Callable[[], exp.Expr | None] | None = None) -> exp.Ordered | None:
            ordered = super()._parse_ordered(parse_method)
            if ordered is not None and self._index > 1:
                before = self._tokens[self._index - 2]
                last = self._prev.text.upper()
                if before.text.upper() == "NULLS" and last in {"FIRST", "LAST"}:
                    ordered.meta[_NULLS] = last
            return ordered

    class Generator(DuckDBGenerator):
        def ordered_sql(self, expression: exp.Ordered) -> str:
            descending = expression.args.get("desc")
            direction = " DESC" if descending else (" ASC" if descending is False else "")
            nulls = expression.meta.get(_NULLS)
            return f"{self.sql(expression, 'this')}{direction}{f' NULLS {nulls}' if nulls else ''}"

        def not_sql(self, expression: exp.Not) -> str:
            tested = expression.this
            if isinstance(tested, exp.Is) and isinstance(tested.expression, exp.Null):
                return f"{self.sql(tested, 'this')} IS NOT NULL"
            return super().not_sql(expression)

        def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
            return f"{self.sql(expression, 'this')} IGNORE NULLS"

        def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
            return f"{self.sql(expression, 'this')} RESPECT NULLS"


def written(node: exp.Expr) -> str:
    """An expression or a query as SQL."""
    return node.sql(dialect=Written, normalize_functions=False, comments=False)
