"""Prints what statements of SQL give: drawn on a terminal, plain columns through a pipe, JSON and CSV for programs.

Rows are printed as they come, so that a result of any size takes little memory. Values are texts as DuckDB writes them.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lancegpu_sql.cli.layout import GAP
from lancegpu_sql.cli.texts import distinct, is_said_as_json, one_line
from lancegpu_sql.query.casting import cast_rows

if TYPE_CHECKING:
    from lancegpu_sql.query.result import QueryResult

Form = Literal["shown", "json", "csv"]
Row = Sequence[str | None]

_BATCH_ROWS = 1_000
_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"}
    | {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BIGNUM"}
)
_EXPLAINED = ["explain_key", "explain_value"]


def print_result(result: QueryResult, form: Form = "shown", *, most_rows: int | None = None) -> None:
    """Print the rows of a result.

    Parameters
    ----------
    form
        ``shown`` is for people: a table on a terminal, plain columns elsewhere.
    most_rows
        Of a table on a terminal; all if None.
    """
    if form == "json":
        _print_json(result)
    elif form == "csv":
        _print_csv(result)
    elif says_nothing(result):
        return
    elif result.columns == _EXPLAINED:
        _print_plans(result)
    elif sys.stdout.isatty():
        _draw(result, most_rows)
    else:
        _print_columns(result)


def says_nothing(result: QueryResult) -> bool:
    """Whether a statement was done that has nothing to tell."""
    return result.columns == ["Success"] and result.types == ["BOOLEAN"] and result.fetchone() is None


@contextmanager
def _texts(result: QueryResult, batch_rows: int = _BATCH_ROWS) -> Iterator[Iterator[list[Row]]]:
    """Some rows at a time, as texts."""
    kinds = ["VARCHAR"] * len(result.columns)
    with result.to_reader(batch_rows) as reader, cast_rows(reader, result.columns, kinds) as texts:
        yield (list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) for batch in texts)


def _draw(result: QueryResult, most_rows: int | None) -> None:
    from lancegpu_sql.cli.drawing import draw_rows

    right, drawn = _numbers(result), 0
    most_at_once = _BATCH_ROWS if most_rows is None else min(most_rows + 1, _BATCH_ROWS)
    with _texts(result, most_at_once) as batches:
        for rows in _gathered(batches, None if most_rows is None else most_rows + 1):
            shown = rows[:most_rows]
            draw_rows(result.columns, shown, right)
            drawn += len(shown)
            if len(shown) < len(rows):
                print(f"(the first {drawn:,} rows; there are more)")
                return
    if not drawn:
        draw_rows(result.columns, [], right)
    print(f"({drawn:,} row{'' if drawn == 1 else 's'})")


def _gathered(batches: Iterator[list[Row]], rows: int | None) -> Iterator[list[Row]]:
    """The batches as they come, or the first so many rows at once."""
    if rows is None:
        yield from batches
        return
    gathered: list[Row] = []
    for batch in batches:
        gathered += batch
        if len(gathered) >= rows:
            break
    if gathered:
        yield gathered[:rows]


def _numbers(result: QueryResult) -> list[bool]:
    return [kind.partition("(")[0] in _NUMBERS for kind in result.types]


def _print_columns(result: QueryResult) -> None:
    """Print rows as lines, under their titles; the first of them say how wide the columns are."""
    right, widths = _numbers(result), None
    with _texts(result) as batches:
        for batch in batches:
            lines = [[one_line("NULL" if cell is None else cell) for cell in row] for row in batch]
            if widths is None:
                lines = [[one_line(name) for name in result.columns], *lines]
                widths = [max(len(line[at]) for line in lines) for at in range(len(result.columns))]
            for line in lines:
                cells = [
                    cell.rjust(width) if is_right else cell.ljust(width)
                    for cell, width, is_right in zip(line, widths, right, strict=True)
                ]
                print((" " * GAP).join(cells).rstrip())
    if widths is None:
        print((" " * GAP).join(one_line(name) for name in result.columns))


def _print_plans(result: QueryResult) -> None:
    for _key, plan in result.fetchall():
        print(plan.rstrip())


def _print_csv(result: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    with _texts(result) as batches:
        for batch in batches:
            writer.writerows(batch)


def _print_json(result: QueryResult) -> None:
    """Print an array of one object a row, a line each."""
    names = [json.dumps(name, ensure_ascii=False) for name in distinct(result.columns)]
    before = "[\n"
    with result.to_reader(_BATCH_ROWS) as reader:
        ways = [_json_way(kind, field.type) for kind, field in zip(result.types, reader.schema, strict=True)]
        with cast_rows(reader, result.columns, [kind for kind, _ in ways]) as rows:
            for batch in rows:
                columns = [
                    ["null" if value is None else said(value) for value in column.to_pylist()]
                    for column, (_, said) in zip(batch.columns, ways, strict=True)
                ]
                for row in zip(*columns, strict=True):
                    cells = ", ".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True))
                    print(f"{before}{{{cells}}}", end="")
                    before = ",\n"
    print("[]" if before == "[\n" else "\n]")


def _json_way(duckdb_type: str, kind: pa.DataType) -> tuple[str | None, Callable[[Any], str]]:
    """To what a column is cast, and how its values are written; JSON and decimals stand as they are."""
    if duckdb_type == "JSON":
        return None, str
    if pa.types.is_decimal(kind):
        return "VARCHAR", str
    if pa.types.is_nested(kind) and not is_said_as_json(kind):
        return "JSON", _json_of_text
    return (None if is_said_as_json(kind) else "VARCHAR"), _json


def _json_of_text(text: str) -> str:
    """What DuckDB writes as JSON, without what JSON does not have."""
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return json.dumps(_without_odd_floats(json.loads(text)), ensure_ascii=False)
    return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity
        return json.dumps(_without_odd_floats(value), ensure_ascii=False)


def _without_odd_floats(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list):
        return [_without_odd_floats(item) for item in value]
    return {name: _without_odd_floats(item) for name, item in value.items()} if isinstance(value, dict) else value
