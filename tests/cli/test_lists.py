"""What lists and shows, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LISTS = ["tables", "columns", "functions list", "classes list", "jobs list"]


@pytest.mark.parametrize("command", LISTS)
def test_a_list_for_programs_is_a_json_array_of_objects(run: Any, command: str):
    listed = run(*command.split(), "--json").json
    assert listed
    assert all(isinstance(one, dict) for one in listed)


@pytest.mark.parametrize("command", LISTS)
def test_a_list_through_a_pipe_is_plain_columns_under_titles(run: Any, command: str):
    ran = run(*command.split())
    titles, *rows = ran.out.splitlines()
    assert rows
    assert titles.isascii()
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("command", LISTS)
def test_a_list_of_nothing_says_so_beside_the_answer_and_is_an_empty_array_for_programs(
    run: Any, tmp_path: Path, command: str
):
    run("init", "--db", str(tmp_path))
    ran = run(*command.split(), "--db", str(tmp_path))
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("There are no ")
    assert run(*command.split(), "--db", str(tmp_path), "--json").json == []


def test_tables_are_listed_with_rows_and_columns(run: Any):
    reviews = next(one for one in run("tables", "--json").json if one["table"] == "reviews")
    assert (reviews["rows"], reviews["columns"]) == (3, {"text": "string", "size": "int64"})


def test_columns_tell_their_function_and_how_current_they_are(run: Any):
    (status,) = run("columns", "reviews", "--json").json
    assert status == {
        "table": "reviews",
        "column": "size",
        "function": "text_size",
        "version": 1,
        "fresh_rows": 3,
        "stale_rows": 0,
        "failed_rows": 0,
        "never_computed_rows": 0,
    }


def test_a_simulated_gpu_class_says_that_it_is(run: Any):
    (one,) = run("classes", "list", "--json").json
    assert one["simulated"] is True
    titles, row = run("classes", "list").out.splitlines()
    assert (titles.split()[-1], row.split()[-1]) == ("simulated", "yes")


def test_a_function_is_shown_with_its_types(run: Any):
    shown = run("functions", "show", "text_size", "--json").json
    assert (shown["parameters"][0]["type"], shown["output_type"]) == ("utf8", "int64")
    assert "(text utf8) -> int64" in run("functions", "show", "text_size").out


def test_a_failed_job_is_shown_with_the_reason_and_what_happened(run: Any):
    job = run("jobs", "list", "--table", "bad_ones", "--state", "failed", "--json").json[0]
    shown = run("jobs", "show", job["id"]).out
    assert "that is no text for me" in shown
    assert run("jobs", "show", job["id"], "--json").json["events"][-1]["kind"] == "failed"


def test_the_log_holds_what_user_code_printed(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--json").json[-1]
    assert sorted(run("jobs", "log", job["id"]).out.split()) == ["None", "bad", "good", *["measured"] * 3]
