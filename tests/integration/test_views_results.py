"""Results of Functions on disk: found by their arguments, within a bound, those of use longest ago removed first."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from refresh_kit import open_database, short_folder

from lancegpu_sql import function
from lancegpu_sql.apply.digest import row_digests
from lancegpu_sql.refresh.views.results import ResultStore

KIND = pa.int64()


def keys_of(numbers: range) -> np.ndarray:
    return row_digests(pa.record_batch({"x": pa.array(numbers, pa.int64())}), bytes(16))


def keep(store: ResultStore, numbers: range, function: str = "f") -> None:
    """Keep ten times each number as a Function's result."""
    results = store.of(function, KIND)
    results.add(keys_of(numbers), pa.array([10 * number for number in numbers], KIND))
    results.flush()


def found(store: ResultStore, numbers: range, function: str = "f") -> dict[int, int]:
    known, values = store.of(function, KIND).find(keys_of(numbers))
    return dict(zip(np.array(numbers)[known].tolist(), values.to_pylist(), strict=True))


def test_what_was_kept_is_found_by_another_process(tmp_path: Path):
    keep(ResultStore(tmp_path, 1 << 20), range(5))
    keep(ResultStore(tmp_path, 1 << 20), range(3, 8))
    assert found(ResultStore(tmp_path, 1 << 20), range(10)) == {number: 10 * number for number in range(8)}


def test_each_function_version_has_results_of_its_own(tmp_path: Path):
    store = ResultStore(tmp_path, 1 << 20)
    keep(store, range(5))
    assert found(store, range(5), "g") == {}


def test_small_files_become_one(tmp_path: Path):
    store = ResultStore(tmp_path, 1 << 30)
    for start in range(0, 400, 10):
        keep(store, range(start, start + 10))
    assert len(list(tmp_path.glob("results/f/*"))) < 10
    assert len(found(store, range(400))) == 400


def test_results_of_use_longest_ago_go_first(tmp_path: Path):
    store = ResultStore(tmp_path, 50_000)
    for at, name in enumerate("abcd"):
        keep(store, range(400), name)
        for file in tmp_path.glob(f"results/{name}/*"):
            os.utime(file, (at, at))
    assert found(store, range(400), "a")  # it is of use now
    keep(store, range(400, 800), "e")
    assert store.size_bytes() <= 50_000
    assert (bool(found(store, range(400), "a")), bool(found(store, range(400), "b"))) == (True, False)


@pytest.mark.parametrize("written", [b"", b"nothing that Arrow wrote"])
def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path, written: bytes):
    store = ResultStore(tmp_path, 1 << 20)
    keep(store, range(5))
    (file,) = tmp_path.glob("results/f/*")
    file.write_bytes(written)
    assert found(store, range(5)) == {}


def test_a_store_of_nothing_keeps_nothing(tmp_path: Path):
    store = ResultStore(tmp_path, 0)
    keep(store, range(5))
    assert (found(store, range(5)), store.size_bytes()) == ({}, 0)


def test_cleared_results_are_gone(tmp_path: Path):
    store = ResultStore(tmp_path, 1 << 20)
    keep(store, range(5))
    store.clear()
    assert (found(store, range(5)), store.size_bytes()) == ({}, 0)


def test_what_a_class_is_made_with_tells_results_apart():
    @function
    class Scaled:
        def __init__(self, by: int = 2) -> None:
            self.by = by

        def __call__(self, x: int) -> int:
            return self.by * x

    with short_folder() as folder, open_database(folder) as db:
        db.create_function(Scaled, name="scaled")
        db.create_table("t", [{"x": 1}, {"x": 2}])
        for by, policy in ((3, "fail"), (4, "skip")):
            query = f"SELECT scaled(x, by := {by}) AS y FROM t"
            view = db.create_materialized_view(f"by_{by}", query, error_policy=policy)
            assert view.to_arrow()["y"].to_pylist() == [by, 2 * by]
