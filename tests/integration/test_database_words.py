"""What users of LanceDB write to get at tables means the same here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

import lancegpu_sql as lg
from lancegpu_sql.errors import AlreadyExists, InvalidInput, TableNotFound

NUMBERS = pa.table({"n": [1, 2, 3]})


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lg.Database]:
    folder = tmp_path_factory.mktemp("words")
    with lg.connect(folder / "db", progress="quiet", runtime_folder=folder / "run") as opened:
        opened.create_table("numbers", NUMBERS)
        yield opened


def test_a_table_is_had_by_its_name(db: lg.Database):
    assert db["numbers"].to_arrow() == NUMBERS
    with pytest.raises(TableNotFound, match="The tables are"):
        db["nope"]


@pytest.mark.parametrize(("name", "there"), [("numbers", True), ("nope", False), ("../numbers", False), (3, False)])
def test_a_database_tells_whether_it_has_a_table(db: lg.Database, name: object, there: bool):
    assert (name in db) is there


def test_a_database_is_no_sequence(db: lg.Database):
    with pytest.raises(TypeError, match="not iterable"):
        list(db)  # type: ignore[call-overload]


def test_a_table_and_a_view_are_as_long_as_they_have_rows(db: lg.Database):
    view = db.create_materialized_view("seen", "SELECT n FROM numbers WHERE n > 1")
    assert (len(db["numbers"]), len(view)) == (3, 2)


def test_an_empty_table_is_a_table_all_the_same(db: lg.Database):
    assert db.create_table("empty", schema=NUMBERS.schema, exist_ok=True)


def test_a_table_that_may_be_there_is_left_as_it_is(db: lg.Database):
    assert db.create_table("numbers", pa.table({"n": [9]}), exist_ok=True).to_arrow() == NUMBERS
    with pytest.raises(AlreadyExists):
        db.create_table("numbers", pa.table({"n": [9]}), exist_ok=False)


def test_overwriting_goes_before_leaving_as_it_is(db: lg.Database):
    db.create_table("replaced", NUMBERS)
    assert len(db.create_table("replaced", pa.table({"n": [9]}), mode="overwrite", exist_ok=True)) == 1


def test_a_data_frame_without_pandas_is_refused_with_how_to_get_it(db: lg.Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match="pip install pandas"):
        db["numbers"].to_pandas()
