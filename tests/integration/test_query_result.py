"""The forms in which a query's rows are handed out."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lance_folder import LanceFolder

from lancegpu_sql.errors import Cancelled, InvalidInput
from lancegpu_sql.query.session import QuerySession

ROWS = 200_000


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuerySession]:
    folder = LanceFolder(Path(tmp_path_factory.mktemp("tables")))
    folder.write("numbers", {"n": np.arange(ROWS)}, rows_per_file=50_000)
    session = folder.session()
    yield session
    session.close()


def test_rows_come_as_arrow_pandas_polars_and_python_values(session: QuerySession):
    result = session.sql("SELECT n, 'a' || n AS s FROM numbers WHERE n < 2 ORDER BY n")
    assert result.to_arrow().to_pydict() == {"n": [0, 1], "s": ["a0", "a1"]}
    assert isinstance(result.to_pandas(), pd.DataFrame)
    assert result.to_polars().equals(pl.DataFrame({"n": [0, 1], "s": ["a0", "a1"]}))
    assert result.fetchall() == [(0, "a0"), (1, "a1")]
    assert result.fetchone() == (0, "a0")


def test_what_duckdb_has_other_names_for_has_these_as_well(session: QuerySession):
    result = session.sql("SELECT n, 'a' || n AS s FROM numbers WHERE n < 2 ORDER BY n")
    assert result.df().equals(result.to_pandas())
    assert result.pl().equals(result.to_polars())
    assert result.arrow().read_all() == result.to_arrow()


def test_fetchmany_gives_the_first_rows_every_time(session: QuerySession):
    result = session.sql("SELECT n FROM numbers ORDER BY n")
    assert result.fetchmany() == [(0,)]
    assert result.fetchmany(3) == result.fetchmany(3) == [(0,), (1,), (2,)]
    assert result.fetchmany(0) == []
    with pytest.raises(InvalidInput, match="0 or more, not -1"):
        result.fetchmany(-1)


def test_columns_and_types_are_known_before_anything_runs(session: QuerySession):
    result = session.sql("SELECT sum(n) AS total, error('never run') AS e FROM numbers")
    assert (result.columns, result.types[0]) == (["total", "e"], "HUGEINT")
    assert repr(result).startswith("QueryResult(total HUGEINT")


def test_python_values_are_those_of_their_type(session: QuerySession):
    assert session.sql("SELECT sum(n), 1.50, [n for n in [1]] FROM numbers").fetchall() == [
        (ROWS * (ROWS - 1) // 2, Decimal("1.50"), [1])
    ]


def test_an_empty_result_keeps_its_columns(session: QuerySession):
    result = session.sql("SELECT n FROM numbers WHERE n < 0")
    assert result.to_arrow().schema.names == ["n"]
    assert result.fetchone() is None
    assert result.to_reader().read_all().num_rows == 0


def test_a_reader_hands_out_its_first_batch_long_before_the_last_row_is_computed(session: QuerySession):
    with session.sql("SELECT a.n, b.range FROM numbers a, range(10_000) b").to_reader(1000) as reader:
        assert reader.read_next_batch().num_rows == 1000


def test_two_readers_and_other_queries_do_not_disturb_each_other(session: QuerySession):
    result = session.sql("SELECT n FROM numbers")
    first, second = result.to_reader(10_000), result.to_reader(10_000)
    seen = [first.read_next_batch().num_rows + second.read_next_batch().num_rows]
    assert session.sql("SELECT count(*) FROM numbers").fetchall() == [(ROWS,)]
    seen += [first.read_all().num_rows, second.read_all().num_rows]
    assert sum(seen) == 2 * ROWS


def test_a_reader_outlives_its_result(session: QuerySession):
    reader = session.sql("SELECT n FROM numbers").to_reader()
    assert reader.read_all().num_rows == ROWS


def test_rows_come_in_the_order_of_the_table(session: QuerySession):
    column = session.sql("SELECT n FROM numbers WHERE n % 3 = 0").to_arrow()["n"].to_numpy()
    assert (np.diff(column) > 0).all()


def test_show_prints_a_table_and_says_that_there_is_more(session: QuerySession, capsys: pytest.CaptureFixture[str]):
    session.sql("SELECT n FROM numbers").show(max_rows=4)
    printed = capsys.readouterr().out
    assert "int64" in printed
    assert printed.count("\n") < 25


def test_a_statement_that_acts_runs_once(session: QuerySession):
    session.sql("CREATE TEMP TABLE counted (v INT)")
    inserted = session.sql("INSERT INTO counted VALUES (1), (2)")
    assert inserted.fetchall() == inserted.fetchall() == [(2,)]
    assert session.sql("SELECT count(*) FROM counted").fetchall() == [(2,)]


def test_results_are_ordinary_arrow_tables(session: QuerySession):
    assert isinstance(session.sql("SELECT 1 AS one").to_arrow(), pa.Table)


ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


def test_a_query_is_cancelled_from_another_thread(session: QuerySession):
    result = session.sql(ENDLESS)
    timer = threading.Timer(0.2, result.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        result.fetchall()
    timer.join()


def test_a_reader_of_a_cancelled_query_says_so(session: QuerySession):
    result = session.sql("SELECT range FROM range(10000000)")
    reader = result.to_reader()
    reader.read_next_batch()
    result.cancel()
    with pytest.raises(Cancelled):
        reader.read_all()


@pytest.mark.parametrize("form", ["fetchall", "to_arrow", "to_pandas"])
def test_ctrl_c_ends_a_query_and_leaves_the_session_in_order(session: QuerySession, form: str):
    result = session.sql(ENDLESS)
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        getattr(result, form)()
    timer.join()
    assert session.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_installed_is_named_with_how_to_get_it(
    session: QuerySession, monkeypatch: pytest.MonkeyPatch, library: str
):
    monkeypatch.setitem(sys.modules, library, None)
    result = session.sql("SELECT 1")
    with pytest.raises(InvalidInput, match=f"pip install {library}"):
        getattr(result, f"to_{library}")()
