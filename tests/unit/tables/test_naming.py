"""Names that Lance, LanceDB and SQL can carry."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancegpu_sql.errors import InvalidName
from lancegpu_sql.tables.naming import (
    alike_names,
    check_column_names,
    check_columns,
    check_table_name,
    is_hidden,
    is_table_name,
)


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "_x", "-x", "1", "x" * 200])
def test_names_that_lancedb_allows_may_be_created(name: str) -> None:
    check_table_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "../a", "a b", "ünï", "a$b", "x" * 201, "a\n", "a\0"])
def test_names_that_leave_the_folder_or_hide_in_it_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_table_name(name)


def test_a_table_with_a_leading_dot_can_still_be_opened() -> None:
    assert is_table_name(".theirs")


@pytest.mark.parametrize("name", ["", "*", "a.b", "a`b", "a\0b", "_rowid", "_rowaddr", "_distance", "_lancegpu_x"])
def test_columns_that_would_break_a_table_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_column_names(["fine", name])


@pytest.mark.parametrize("name", ["a b", 'a"b', "日本", "select", "_x", "a/b"])
def test_unusual_columns_are_allowed(name: str) -> None:
    check_column_names([name])


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidName, match="Two columns"):
        check_column_names(["a", "a"])


def test_a_proof_is_hidden() -> None:
    assert is_hidden("_lancegpu_proof_vec")
    assert not is_hidden("_rowid")


def test_a_column_without_a_name_is_told_so() -> None:
    with pytest.raises(InvalidName, match="needs a name"):
        check_column_names([""])


INNER = pa.struct([("A", pa.int64()), ("a", pa.int64())])


@pytest.mark.parametrize(
    ("schema", "alike"),
    [
        ({"A": pa.int64(), "b": pa.int64(), "a": pa.utf8()}, ("A", "a")),
        ({"s": INNER}, ("s.A", "s.a")),
        ({"s": pa.list_(INNER)}, ("s.A", "s.a")),
        ({"É": pa.int64(), "é": pa.int64(), "s": pa.map_(pa.utf8(), pa.int64())}, None),
    ],
)
def test_names_apart_by_case_only_are_found_at_any_depth(schema: dict[str, pa.DataType], alike: object) -> None:
    assert alike_names(pa.schema(schema)) == alike


def test_columns_that_sql_does_not_tell_apart_are_refused() -> None:
    with pytest.raises(InvalidName, match="'A' and 'a', which SQL does not tell apart"):
        check_columns(pa.schema({"A": pa.int64(), "a": pa.int64()}))
