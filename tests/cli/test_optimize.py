"""`lancegpu optimize`: what is done and left alone, told in a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancegpu_sql as lg


@pytest.fixture
def scattered(run: Any, tmp_path: Path) -> Path:
    """A database with a table of three fragments."""
    run("init", "--db", str(tmp_path))
    with lg.connect(tmp_path, progress="quiet") as db:
        table = db.create_table("t", pa.table({"x": [1]}))
        table.add([{"x": 2}])
        table.add([{"x": 3}])
    return tmp_path


def test_a_dry_run_says_what_would_be_done_and_why(run: Any, scattered: Path):
    ran = run("optimize", "t", "--dry-run", "--cleanup-older-than", "0s", "--db", str(scattered))
    assert ran.status == 0
    assert "compact" in ran.out
    assert "others took their place already" in ran.out
    assert run("tables", "--db", str(scattered), "--json").json[0]["version"] == 3


def test_the_list_of_jobs_says_what_one_did(run: Any, scattered: Path):
    for _ in range(2):
        run("optimize", "t", "--cleanup-older-than", "none", "--db", str(scattered))
    told = [line.split("UTC")[-1].strip() for line in run("jobs", "list", "--db", str(scattered)).out.splitlines()[1:]]
    assert told == ["nothing to do", "3 fragments became 1"]


def test_all_tables_are_optimized_where_none_is_named(run: Any, scattered: Path):
    done = run("optimize", "--cleanup-older-than", "none", "--db", str(scattered), "--json").json
    assert [(one["table"], one["fragments_after"]) for one in done["tables"]] == [("t", 1)]
    assert done["left_over"]["removed"] == 0
    again = run("optimize", "--cleanup-older-than", "none", "--db", str(scattered))
    assert (again.status, again.out) == (0, "0 bytes were freed.\n")
    assert "There is nothing to do." in again.err


@pytest.mark.parametrize(("written", "said"), [("soon", "is no time: write 7d"), ("-1d", "is no time: write 7d")])
def test_a_time_that_is_none_is_refused(run: Any, scattered: Path, written: str, said: str):
    ran = run("optimize", f"--cleanup-older-than={written}", "--db", str(scattered))
    assert (ran.status != 0, said in ran.err) == (True, True)


def test_it_may_be_left_to_an_agent(run: Any, scattered: Path):
    job = run("optimize", "t", "--no-wait", "--db", str(scattered)).out.strip()
    shown = run("jobs", "show", job, "--db", str(scattered), "--json").json
    assert (shown["kind"], shown["state"]) == ("optimize", "queued")
