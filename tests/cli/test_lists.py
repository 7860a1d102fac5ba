"""What lists and shows, for people and for programs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.catalog.store import Catalog

LISTS = ["tables", "columns", "functions list", "classes list", "views", "schedules", "jobs list"]


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


def test_why_a_job_failed_is_told_by_owner_and_pattern_with_an_example(run: Any):
    job = run("jobs", "list", "--table", "bad_ones", "--state", "failed", "--json").json[0]["id"]
    told = run("jobs", "errors", job).out
    assert "user" in told
    assert "ValueError: that is no text for me" in told
    assert "user" in run("jobs", "errors", job, "--each").out
    (error,) = run("jobs", "errors", job, "--json").json["errors"]
    assert (error["owner"], error["arguments"]) == ("user", {"text": "boom"})


def test_the_log_holds_what_user_code_printed(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--json").json[-1]
    assert sorted(run("jobs", "log", job["id"]).out.split()) == ["None", "bad", "good", *["measured"] * 3]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets answers go to a terminal so wide."""

    def draw_on(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    return draw_on


@pytest.mark.parametrize("command", LISTS)
def test_a_list_fits_a_terminal_of_80_columns_with_every_word_whole(
    run: Any, terminal: Callable[[int], None], command: str
):
    words = set(run(*command.split()).out.split())
    terminal(80)
    drawn = re.sub(r"\x1b\[\dm", "", run(*command.split()).out)
    assert max(map(len, drawn.splitlines())) <= 80
    assert {word for word in drawn.split() if len(word) != 8} <= words


def test_a_job_is_listed_on_a_terminal_by_a_short_id_that_names_it(run: Any, terminal: Callable[[int], None]):
    ids = {one["id"] for one in run("jobs", "list", "--json").json}
    terminal(80)
    rows = [line.split() for line in run("jobs", "list").out.splitlines()[1:]]
    short = [row[0] for row in rows if len(row[0]) == 8 and ("." in row[1] or row[1] == "long_ones")]
    assert len(short) == len(ids)
    assert {run("jobs", "show", one, "--json").json["id"] for one in short} == ids


def test_times_say_their_zone(run: Any):
    assert re.search(r"created +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+$", show_a_job(run), re.MULTILINE)


def show_a_job(run: Any) -> str:
    """What is shown of the newest job."""
    job = run("jobs", "list", "--limit", "1", "--json").json[0]
    return str(run("jobs", "show", job["id"]).out)


def test_the_agents_that_serve_are_listed(run: Any, tmp_path: Path):
    stop, serves = threading.Event(), threading.Event()
    with lg.connect(tmp_path, agent_concurrency=3) as database:
        agent = threading.Thread(target=database.run_agent, kwargs={"stop": stop, "serving": lambda _: serves.set()})
        agent.start()
        assert serves.wait(60)
        (listed,) = run("agents", "--db", str(tmp_path), "--json").json
        told = run("agents", "--db", str(tmp_path)).out
        stop.set()
        agent.join()
    assert listed["concurrency"] == 3
    assert f"{listed['identity']['pid']} on " in told


def test_without_an_agent_the_list_says_how_one_is_started(run: Any, tmp_path: Path):
    run("init", "--db", str(tmp_path))
    ran = run("agents", "--db", str(tmp_path))
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("There are no agents. Start one with: lancegpu agent")
    assert run("agents", "--db", str(tmp_path), "--json").json == []


def test_a_job_tells_on_which_gpu_classes_it_ran(run: Any, tmp_path: Path):
    run("init", "--db", str(tmp_path))
    (place,) = tmp_path.rglob("catalog.sqlite")
    workers = {"worker 1": {"calls": 3, "gpu_class": "l4"}, "worker 2": {"calls": 2, "gpu_class": "a100"}}
    record = JobRecord.new("refresh_column").model_copy(update={"timings": {"phases": {}, "workers": workers}})
    with Catalog.open(place) as catalog:
        catalog.add_job(record)
    shown = run("jobs", "show", record.id, "--db", str(tmp_path)).out
    assert "GPU class l4 (1 worker), GPU class a100 (1 worker)" in shown


def test_schedules_tell_when_they_are_due_and_what_they_wait_for(run: Any):
    (found,) = run("schedules", "new_ones", "--json").json
    assert (found["schedule"], found["rule"], found["state"]) == ("new_ones.size", "every 10 minutes", "blocked")
    assert "start one with lancegpu agent" in found["reason"]
    assert found["next_run"].endswith("Z")


def test_a_view_is_listed_with_its_state_and_its_schedule(run: Any):
    (view,) = run("views", "--json").json
    assert (view["view"], view["rows"], view["state"]) == ("long_ones", 3, "fresh")
    assert view["schedule"]["rule"] == "every 10 minutes"


def test_a_view_is_refreshed_from_the_command_line(run: Any):
    refreshed = run("refresh-view", "long_ones", "--json").json
    assert (refreshed["mode"], refreshed["source_versions"].keys()) == ("no_op", {"reviews"})
