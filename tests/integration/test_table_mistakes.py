"""What a user who got something wrong at a table is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from refresh_kit import open_database

from lancegpu_sql import col, function
from lancegpu_sql.database import Database, Table
from lancegpu_sql.errors import (
    ColumnNotFound,
    InvalidBinding,
    InvalidData,
    InvalidInput,
    InvalidName,
    InvalidQuery,
    LanceGpuError,
    VersionNotFound,
)


@function
def upc(s: str) -> str:
    return s.upper()


@function
def half(x: float) -> float:
    return x / 2


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_database(tmp_path_factory.mktemp("db")) as database:
        yield database


@pytest.fixture(scope="module")
def table(database: Database) -> Table:
    return database.create_table("t", {"name": ["a", "b"], "x": [1, 2]})


MISTAKES: list[tuple[Callable[[Table], Any], type[LanceGpuError], str]] = [
    (lambda t: t.add_columns({"u": upc(s="name")}), InvalidQuery, r"only the name of a column.*f\(x=col\('name'\)\)"),
    (lambda t: t.add_columns({"u": '"name"'}), InvalidQuery, r"write '\(`name`\)'"),
    (lambda t: t.add_columns({"u": upc(s="nome")}), InvalidQuery, r"(?s)NOME.*f\(x=\"x\"\) calls it here"),
    (lambda t: t.add_columns({"u": upc(s="two words")}), InvalidQuery, "A string is an expression in Lance's SQL"),
    (lambda t: t.add_columns({"u": half(x=3)}), InvalidInput, "given as float"),
    (lambda t: t.add_columns({"u": half(x=col("x"))}), InvalidBinding, "annotate the parameter with int"),
    (lambda t: t.alter_column("x", function=upc), ColumnNotFound, "'x' of table 't' is a plain one"),
    (lambda t: t.alter_column("zz", function=upc), ColumnNotFound, "no column 'zz'"),
    (lambda t: t.restore(999), VersionNotFound, "no version 999"),
    (lambda t: t.checkout(999), VersionNotFound, "no version 999.*list_versions"),
    (lambda t: t.add(None), InvalidData, "There is no data"),
    (lambda t: t.refresh_column("x"), ColumnNotFound, "not a computed one: nothing to refresh"),
]


@pytest.mark.parametrize(("act", "kind", "says"), MISTAKES)
def test_a_mistake_at_a_table_is_told_in_its_own_terms(
    table: Table, act: Callable[[Table], Any], kind: type[LanceGpuError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        act(table)
    assert table.schema.names == ["name", "x"]


CREATIONS: list[tuple[dict[str, Any], type[LanceGpuError], str]] = [
    ({}, InvalidData, "There is no data: give .* schema="),
    ({"data": {"": [1]}}, InvalidName, "A column needs a name"),
    ({"data": {"A": [1], "a": [2]}}, InvalidName, "does not tell apart"),
    ({"data": {"s": [{"A": 1, "a": 2}]}}, InvalidName, r"s\.A.*s\.a"),
    ({"data": 5}, InvalidData, "A value of type int is not rows"),
    ({"data": {1: [1]}}, InvalidData, "name of a column is a text, not 1"),
    ({"data": [{1: 1}]}, InvalidData, "name of a column is a text, not 1"),
    ({"schema": {"x": pa.int64()}}, InvalidData, "schema is a pyarrow.Schema"),
]


@pytest.mark.parametrize(("arguments", "kind", "says"), CREATIONS)
def test_a_table_that_cannot_be_is_not_created(
    database: Database, arguments: dict[str, Any], kind: type[LanceGpuError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        database.create_table("refused", **arguments)
    assert "refused" not in database.table_names()


def test_a_column_may_still_be_copied(database: Database) -> None:
    table = database.create_table("copied", {"name": ["a", "b"]})
    table.add_columns({"again": "(`name`)"})
    assert table.to_arrow()["again"].to_pylist() == ["a", "b"]


def test_a_batch_function_may_give_vectors_as_a_numpy_array(database: Database) -> None:
    @function(output_schema=pa.schema([("vector", pa.list_(pa.float32(), 2))]))
    def embed(text: pa.StringArray) -> np.ndarray:
        return np.array([[len(one), 1.0] for one in text.to_pylist()], dtype="float32")

    table = database.create_table("texts", {"text": ["a", "bcd"]})
    table.add_columns({"vector": embed(text=col("text"))})
    table.refresh_column("vector")
    assert table.to_arrow()["vector"].to_pylist() == [[1.0, 1.0], [3.0, 1.0]]
