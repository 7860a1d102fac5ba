"""`lancegpu sql` with statements: what it prints, in which form, and how it ends."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives a text as standard input."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_each_statement_prints_its_rows_as_columns_through_a_pipe(run: Any):
    ran = run(
        "sql", "SELECT 7 AS id, 'a b' AS name UNION ALL SELECT 123, NULL ORDER BY id; SELECT 1 AS one; SET threads = 2"
    )
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [" id  name", "  7  a b", "123  NULL", "one", "  1"]


def test_functions_of_the_database_are_called(run: Any):
    ran = run("sql", "SELECT text_size(text) AS n FROM reviews WHERE text = 'good'")
    assert (ran.status, ran.out.split()) == (0, ["n", "4"])


def test_json_is_one_document_of_the_last_statements_rows(run: Any):
    ran = run(
        "sql",
        "--json",
        "SELECT 1; SELECT 1 AS a, 'x\ny' AS a, NULL AS n, 1.50::DECIMAL(4, 2) AS d, [1.5, 'nan'::FLOAT] AS l, "
        "{'k': true} AS s, DATE '2020-01-02' AS day, '{\"j\": [1]}'::JSON AS j, 'ab'::BLOB AS b",
    )
    row = {"a": 1, "a_1": "x\ny", "n": None, "d": 1.5, "l": [1.5, None], "s": {"k": True}, "day": "2020-01-02"}
    assert ran.json == [{**row, "j": {"j": [1]}, "b": "ab"}]


def test_json_has_nested_values_of_every_type(run: Any):
    nested = "{'at': DATE '2020-01-01', 'l': [1.50, NULL], 'n': 'nan'::DOUBLE}"
    ran = run(
        "sql", "--json", f"SELECT {nested} AS s, MAP {{'a': TIME '10:00:00'}} AS m, [DATE '2020-01-02', NULL] AS d"
    )
    assert ran.json == [
        {"s": {"at": "2020-01-01", "l": [1.5, None], "n": None}, "m": {"a": "10:00:00"}, "d": ["2020-01-02", None]}
    ]


def test_json_of_no_rows_is_an_empty_list(run: Any):
    assert run("sql", "--json", "SELECT 1 WHERE false").json == []
    assert run("sql", "--json", "SET threads = 2").json == []


def test_csv_has_a_line_of_names_and_nothing_for_null(run: Any):
    ran = run("sql", "--csv", "SELECT 1 AS a, 'x, \"y\"\nz' AS b UNION ALL SELECT NULL, '' ORDER BY a")
    assert list(csv.reader(io.StringIO(ran.out))) == [["a", "b"], ["1", 'x, "y"\nz'], ["", ""]]


def test_many_rows_are_printed_as_they_come(run: Any):
    ran = run("sql", "--csv", "SELECT i FROM range(50000) r(i)")
    assert ran.out.splitlines()[-1] == "49999"


def test_times_are_told_in_the_zone_of_the_session(run: Any):
    ran = run("sql", "SET TimeZone = 'Asia/Tokyo'; SELECT '2024-01-01 00:00:00+00'::TIMESTAMPTZ AS t")
    assert ran.out.splitlines()[-1] == "2024-01-01 09:00:00+09"


def test_a_plan_is_printed_as_it_is(run: Any):
    lines = run("sql", "EXPLAIN SELECT text_size(text) FROM reviews").out.splitlines()
    assert "explain_key" not in lines[0]
    assert any("text_size" in line for line in lines)


def test_statements_come_from_a_file(run: Any, tmp_path: Path):
    (tmp_path / "statements.sql").write_text("CREATE TEMP TABLE t AS SELECT 5 AS five;\nFROM t;\n")
    assert run("sql", "-f", str(tmp_path / "statements.sql")).out.split() == ["Count", "1", "five", "5"]


@pytest.mark.parametrize("arguments", [(), ("-f", "-")])
def test_statements_come_from_standard_input(run: Any, given: Callable[[str], None], arguments: tuple[str, ...]):
    given("SELECT 1 AS one;\nSELECT 2 AS two")
    assert run("sql", *arguments).out.split() == ["one", "1", "two", "2"]


def test_a_mistake_ends_with_1_and_is_shown_with_its_place(run: Any):
    text = "SELECT 1 AS one; SELECT nothing FROM reviews; SELECT 3 AS three"
    ran = run("sql", text)
    assert (ran.status, ran.out.split()) == (1, ["one", "1"])
    assert ran.err.startswith("lancegpu: Statement 2 of 3, at line 1: ")
    assert ran.err.endswith(f"\n{text}\n{' ' * text.index('nothing')}^\n")


def test_a_text_that_is_not_understood_does_nothing(run: Any):
    ran = run("sql", "SELECT 1;\nREFRESH COLUM size ON reviews")
    assert (ran.status, ran.out) == (1, "")
    assert "line 2, column 9" in ran.err


@pytest.mark.parametrize(
    "arguments", [("SELECT 1", "-f", "file"), ("SELECT 1", "--json", "--csv"), ("SELECT 1", "--max-rows", "-1")]
)
def test_wrong_usage_ends_with_2(run: Any, arguments: tuple[str, ...]):
    assert run("sql", *arguments).status == 2


def test_a_file_that_cannot_be_read_is_named(run: Any, tmp_path: Path):
    ran = run("sql", "-f", str(tmp_path / "no such"))
    assert (ran.status, "no such cannot be read" in ran.err) == (1, True)


@pytest.fixture
def process(shop: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `lancegpu sql` in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        environment = {"LANCEGPU_DB": str(shop), "LANCEGPU_RUNTIME_FOLDER": str(shop.parent / "run")}
        command = [sys.executable, "-m", "lancegpu_sql.cli", "sql", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, env=os.environ | environment, text=True, **pipes))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def test_ctrl_c_ends_a_long_query_with_130(process: Callable[..., subprocess.Popen[str]]):
    started = process("--csv", "SELECT i FROM range(1000000000000) r(i)")
    assert started.stdout is not None
    assert started.stdout.readline() == "i\n"
    started.send_signal(signal.SIGINT)
    told = started.communicate()[1]
    assert (started.returncode, told.strip()) == (130, "Cancelled.")


def test_a_reader_that_leaves_ends_a_long_query_quietly(process: Callable[..., subprocess.Popen[str]]):
    started = process("SELECT i FROM range(1000000000000) r(i)")
    assert started.stdout is not None
    assert started.stdout.readline().strip() == "i"
    started.stdout.close()
    assert started.stderr is not None
    assert started.stderr.read() == ""
