"""Which rows a condition on row ids is about."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancegpu_sql.query.looked_up import ids_meant

ROW_ID, N, TEXT = pc.field("_rowid"), pc.field("n"), pc.field("text")
NAMES = ["n", "text", "_rowid"]


def all_ids() -> pa.RecordBatchReader:
    batch = pa.record_batch({"_rowid": pa.array(range(5_000), pa.uint64())})
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


@pytest.mark.parametrize(
    "condition", [ROW_ID == 3, (ROW_ID == 3) & (N > 1), (N < 2) & (TEXT == 'a"or (') & (ROW_ID == 3)]
)
def test_a_conjunct_tells_the_row(condition: pc.Expression):
    assert ids_meant(condition, NAMES) == [3]


@pytest.mark.parametrize(
    "condition",
    [
        (ROW_ID == 3) | (N > 1),
        ~(ROW_ID == 3),
        (ROW_ID == 3) == (N == 1),
        (N == 1) == (ROW_ID == 3),
        ROW_ID > 3,
        N == 3,
        TEXT == "(_rowid == 3)",
        TEXT == 'a" and (_rowid == 3) and "',
    ],
)
def test_any_other_condition_tells_none(condition: pc.Expression):
    assert ids_meant(condition, NAMES) is None


def test_a_short_list_tells_its_rows_as_duckdb_writes_it():
    listed = pc.if_else(ROW_ID.is_valid(), ROW_ID.isin(pa.array([7, 9], pa.uint64())), pa.scalar(None, pa.bool_()))
    assert ids_meant(listed, NAMES) == ids_meant(listed & (N > 1), NAMES) == [7, 9]
    assert ids_meant(listed | (N > 1), NAMES) is None


def test_a_long_list_tells_none():
    listed = ROW_ID.isin(pa.array(range(50), pa.uint64()))
    assert ids_meant(pc.if_else(ROW_ID.is_valid(), listed, pa.scalar(None, pa.bool_())), NAMES) is None


def test_a_column_of_a_strange_name_makes_nothing_certain():
    strange = "x and (_rowid == 3) and y"
    assert ids_meant(pc.field(strange) == 1, [strange, "_rowid"]) is None


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (ROW_ID.isin([7, 4_000, 9_000]), [7, 4_000]),
        ((ROW_ID == 1) | (ROW_ID == 3), [1, 3]),
        (ROW_ID > 4_997, [4_998, 4_999]),
        (ROW_ID > 9_000, []),
    ],
)
def test_few_rows_are_found_among_the_ids_alone(condition: pc.Expression, ids: list[int]):
    assert ids_meant(condition, NAMES, all_ids) == ids


def test_many_rows_are_not_looked_up():
    assert ids_meant(ROW_ID > 3, NAMES, all_ids) is None
