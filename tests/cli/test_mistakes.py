"""A user's mistake is one clear message and an exit status, never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancegpu_sql
from lancegpu_sql.cli import main

WRONG_USAGE = [
    "nonsense",
    "refresh reviews",
    "refresh reviews size --batch-size 0",
    "refresh reviews size --batch-size many",
    "refresh reviews size --timeout -1",
    "refresh reviews size --no-such-option",
    "jobs list --state asleep",
    "jobs",
    "functions show text_size --version 0",
]

FAILS = {
    "refresh no_table size": "no table 'no_table'",
    "refresh reviews text": "not a computed one",
    "refresh long_ones text": "lancegpu refresh-view long_ones",
    "refresh reviews nothing": "nothing",
    "refresh reviews size --where nonsense(": "nonsense(",
    "refresh reviews size --gpu-class one": "uses no GPU",
    "refresh reviews size --error-policy ignore": "error_policy",
    "refresh reviews size --max-failed-rows 3": "error_policy='skip'",
    "refresh reviews size --error-policy skip --retry-messages (": "regular expression",
    "jobs errors no-job": "no-job",
    "columns no_table": "no table 'no_table'. The tables are",
    "functions show no_function": "no_function",
    "functions show text_size --version 99": "99",
    "functions drop text_size": "reviews.size",
    "functions register no_file.py": "no_file.py is not there",
    "classes apply no_file.yaml": "no_file.yaml",
    "jobs show no-job": "no-job",
    "jobs watch no-job": "no-job",
    "jobs cancel no-job": "no-job",
    "jobs resume no-job": "no-job",
    "jobs log no-job": "no-job",
    "tables --db s3://bucket": "s3://bucket",
    "init --db ": "--db names no folder",
    f"tables --db {'x' * 5000}": "File name too long",
    "tables --db ~nobody-of-that-name": "nobody-of-that-name",
    "functions show text_size --version 99999999999999999999999": "64 bits",
    "jobs list --limit 99999999999999999999": "64 bits",
    "tables --db no_folder": "lancegpu init --db no_folder",
}


@pytest.mark.parametrize("command", WRONG_USAGE)
def test_wrong_usage_ends_with_2(run: Any, command: str):
    ran = run(*command.split())
    assert ran.status == 2
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("command", "told"), FAILS.items())
def test_what_cannot_be_done_ends_with_1_and_says_why(run: Any, command: str, told: str):
    ran = run(*command.split(" "))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines()[-1].startswith("lancegpu: ")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_a_setting_that_there_is_not_is_told(run: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LANCEGPU_MAX_WORKER", "2")
    ran = run("tables")
    assert ran.status == 1
    assert "LANCEGPU_MAX_WORKERS" in ran.err


def test_no_command_makes_a_database_of_a_folder_by_looking_at_it(run: Any, tmp_path: Path):
    assert run("tables", "--db", str(tmp_path)).status == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_raises_is_told_with_its_own_line(run: Any, tmp_path: Path):
    file = tmp_path / "broken_for_tests.py"
    file.write_text("1 / 0\n")
    ran = run("functions", "register", str(file))
    assert ran.status == 1
    assert "ZeroDivisionError" in ran.err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lancegpu {lancegpu_sql.__version__}\n"
