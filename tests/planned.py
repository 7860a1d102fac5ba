"""Runs a plan of the planner on DuckDB alone: Functions are macros, a stage is computed whole, and its rows are read once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.functions_in_text import Signature
from lancegpu_sql.sql.plan import QueryPlan, StoredColumn, plan_query

TABLES = """
CREATE TABLE t AS SELECT * FROM (VALUES
    (1, 0, 3, 'x1', [1, 2], {'p': 1, 'q': 'a'}), (2, 1, NULL, 'x2', [], {'p': 2, 'q': 'b'}), (3, 2, 3, '3', [3], NULL),
    (4, 0, 1, '4', NULL, {'p': NULL, 'q': 'a'}), (5, 1, 0, NULL, [5, NULL], {'p': 5, 'q': NULL}),
    (6, 2, NULL, 'x2', [1, 2], {'p': 1, 'q': 'a'}), (7, NULL, 3, '7', [7, 8, 9], {'p': 7, 'q': 'c'}),
    (8, 1, -2, 'x1', [0], {'p': 8, 'q': 'a'}), (8, 1, -2, 'x1', [0], {'p': 8, 'q': 'a'}), (10, 0, 7, '', [10], {'p': 3, 'q': 'b'})
) AS rows(id, a, b, s, l, st);
CREATE TABLE u AS SELECT * FROM (VALUES (1, 10, 0, 'x1'), (2, 20, 1, 'y'), (3, 30, NULL, NULL), (5, 50, 1, '7'), (5, 51, 2, 'x2'),
    (NULL, 60, 0, 'x1'), (11, 70, 3, 'z')) AS rows(id, c, a, s);
CREATE TABLE v AS SELECT * FROM (VALUES (1, DATE '2020-01-01', 1.5), (2, DATE '2021-06-30', NULL), (3, NULL, 2.25),
    (3, DATE '2020-01-01', -1.0)) AS rows(k, d, m);
CREATE TABLE empty_table (id INTEGER, a INTEGER, b INTEGER);
CREATE TABLE docs AS SELECT id, a, b, a + 1 AS fa, NULL::INTEGER AS ga, a % 2 = 1 AS pa,
    CASE WHEN id > 4 THEN coalesce(b, 77) END AS nb FROM t;
CREATE VIEW "docs, proved" AS SELECT *, id > 4 AS "nb is current" FROM docs;
CREATE VIEW seen AS SELECT id, a + 1 AS a1 FROM t;
CREATE MACRO total(x) AS sum(x);
CREATE MACRO twice(x) AS x + x;
"""
# What each Function does: for DuckDB, a macro of the same name.
BODIES = {
    "f": (("x",), "CAST(x AS INTEGER) + 1"),
    "g": (("x",), "CAST(x AS INTEGER) * 2"),
    "h": (("x", "y"), "coalesce(CAST(x AS INTEGER), 0) * 10 + coalesce(CAST(y AS INTEGER), 0)"),
    "p": (("x",), "CAST(x AS INTEGER) % 2 = 1"),
    "t1": (("x",), "concat('<', CAST(x AS VARCHAR), '>')"),
    "li": (("x",), "[CAST(x AS INTEGER), CAST(x AS INTEGER) + 1]"),
    "rec": (("x",), "{'lo': CAST(x AS INTEGER) - 1, 'hi': CAST(x AS INTEGER) + 1}"),
    "nul": (("x",), "coalesce(CAST(x AS INTEGER), 77)"),
    "picky": (
        ("x",),
        "CAST(CASE WHEN CAST(x AS INTEGER) = 0 THEN 'picky' ELSE CAST(10 // CAST(x AS INTEGER) AS VARCHAR) END AS INTEGER)",
    ),
    "nd": (("x",), "CAST(x AS INTEGER) + 5"),
}
KNOWN = {
    name: Signature(name, parameters, deterministic=name != "nd", version_digest=f"{name}@1")
    for name, (parameters, _) in BODIES.items()
}

# Of table docs: fa is fresh, ga is not, pa was computed with another version, and nb is fresh in some rows.
COMPUTED = {
    "docs": (
        StoredColumn("fa", "f", "f@1", ("a",), fully_fresh=True),
        StoredColumn("ga", "g", "g@1", ("a",), fully_fresh=False),
        StoredColumn("pa", "p", "p@0", ("a",), fully_fresh=True),
        StoredColumn("nb", "nul", "nul@1", ("b",), fully_fresh=False, proved="docs, proved", proof="nb is current"),
    )
}


@dataclass
class Seen:
    """What running a query gave.

    Attributes
    ----------
    calls
        How many rows each Function computed in stages.
    """

    names: list[str]
    types: list[str]
    rows: list[tuple[object, ...]]
    plan: QueryPlan | None = None
    calls: Counter[str] = field(default_factory=Counter)


class Bench:
    """A DuckDB with small tables that have nulls and duplicates, and macros in the Functions' places."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.connection.execute(TABLES)
        for name, (parameters, body) in BODIES.items():
            self.connection.execute(f"CREATE MACRO {name}({', '.join(parameters)}) AS {body}")

    def describe(self, text: str) -> list[tuple[str, str]]:
        try:
            relation = self.connection.sql(text, params=_some_parameters(text))
        except duckdb.Error as exc:
            raise InvalidQuery(str(exc)) from exc
        return list(zip(relation.columns, map(str, relation.types), strict=True))

    def plan(self, text: str, computed: Mapping[str, Sequence[StoredColumn]] | None = None) -> QueryPlan:
        return plan_query(text, KNOWN, self.describe, computed, self.read_tree)

    def read_tree(self, text: str) -> object:
        ((tree,),) = self.connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
        read = json.loads(tree)
        return None if read["error"] else read["statements"]

    def as_written(self, text: str) -> Seen:
        relation = self.connection.sql(text)
        return Seen(list(relation.columns), list(map(str, relation.types)), relation.fetchall())

    def planned(self, text: str, computed: Mapping[str, Sequence[StoredColumn]] | None = None) -> Seen:
        """Run the query's plan: each stage's input, then its calls, then a reader of what they gave."""
        plan = self.plan(text, computed)
        calls: Counter[str] = Counter()
        try:
            for stage in plan.stages:
                self.connection.execute(f"CREATE OR REPLACE TEMP TABLE stage_input AS {stage.input_sql}")
                items = [f'"{name}"' for name in stage.carried]
                for call in stage.calls:
                    made = f"{call.function}({', '.join(call.arguments)})"
                    made = f"TRY({made})" if call.try_ else made
                    items.append(f"CASE WHEN {call.mask or 'true'} THEN {made} END AS {call.result}")
                    calls[call.function] += self._rows_of(call.mask)
                result = self.connection.sql(f"SELECT {', '.join(items)} FROM stage_input").to_arrow_table()
                self._register(stage.name, items, result)
            relation = self.connection.sql(plan.final_sql)
            return Seen(list(relation.columns), list(map(str, relation.types)), relation.fetchall(), plan, calls)
        finally:
            for stage in plan.stages:
                self.connection.execute(f"DROP VIEW IF EXISTS {stage.name}")

    def _register(self, name: str, items: Sequence[str], result: pa.Table) -> None:
        """A relation that can be read once, of the types that DuckDB knew before Arrow carried the rows."""
        types = self.connection.sql(f"SELECT {', '.join(items)} FROM stage_input").types
        self.connection.register(f"{name}_rows", pa.RecordBatchReader.from_batches(result.schema, result.to_batches()))
        columns = ", ".join(
            f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in zip(result.column_names, types, strict=True)
        )
        self.connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM {name}_rows")

    def _rows_of(self, mask: str | None) -> int:
        ((rows,),) = self.connection.sql(f"SELECT count(*) FROM stage_input WHERE {mask or 'true'}").fetchall()
        return int(rows)


def _some_parameters(text: str) -> list[int] | dict[str, int] | None:
    if "?" in text:
        return [1] * text.count("?")
    return dict.fromkeys(re.findall(r"\$(\d+)", text), 1) or None


def sorted_rows(rows: Sequence[tuple[object, ...]]) -> list[str]:
    """Rows in an order that depends on nothing but their values."""
    return sorted(map(repr, rows))
