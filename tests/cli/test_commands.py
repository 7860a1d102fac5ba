"""What changes things, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import lancegpu_sql as lg

FUNCTION_FILE = """\
from lancegpu_sql import function

print("a file may print")

@function
def twice(x: int) -> int:
    return 2 * x

def thrice(x: int) -> int:
    return 3 * x
"""


def test_a_refresh_says_what_it_did(run: Any):
    ran = run("refresh", "reviews", "size", "--where", "text = 'good'", "--json")
    assert ran.status == 0
    assert ran.json["rows_assigned"] == 1


def test_progress_stands_beside_the_answer_not_in_it(run: Any):
    ran = run("refresh", "reviews", "size")
    assert "reviews.size: finished" in ran.err
    assert ran.out.splitlines()[0].split() == ["mode", "no_op"]


def test_a_refresh_that_fails_ends_with_1_and_shows_the_users_traceback_not_ours(run: Any):
    ran = run("refresh", "bad_ones", "size")
    assert (ran.status, ran.out) == (1, "")
    assert "ValueError: that is no text for me" in ran.err
    assert "--error-policy skip" in ran.err
    assert "lancegpu_sql" not in ran.err


def test_a_failed_job_is_resumed_and_fails_again(run: Any):
    job = run("jobs", "list", "--table", "bad_ones", "--json").json[0]
    assert run("jobs", "resume", job["id"]).status == 1
    assert run("jobs", "watch", job["id"]).status == 1


def test_a_job_that_has_ended_is_cancelled_in_vain(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--json").json[-1]
    ran = run("jobs", "cancel", job["id"])
    assert (ran.status, ran.out) == (0, f"Job {job['id']} has ended already: it is finished.\n")


def test_watching_a_finished_job_ends_at_once_with_0(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--json").json[-1]
    assert run("jobs", "watch", job["id"]).status == 0


def test_a_file_of_functions_is_registered_and_the_same_again_is_the_same_version(run: Any, tmp_path: Path):
    file = tmp_path / "arithmetic_for_tests.py"
    file.write_text(FUNCTION_FILE)
    for _ in range(2):
        ran = run("functions", "register", str(file), "--json")
        assert [(one["name"], one["version"]) for one in ran.json] == [("twice", 1)]


def test_an_undecorated_function_is_registered_by_its_name_and_dropped(run: Any, tmp_path: Path):
    file = tmp_path / "arithmetic_for_tests.py"
    file.write_text(FUNCTION_FILE)
    assert run("functions", "register", str(file), "--name", "thrice").status == 0
    assert run("functions", "drop", "thrice").out == "Dropped thrice.\n"
    assert run("functions", "show", "thrice").status == 1


def test_gpu_classes_are_changed_by_apply_and_only_looked_at_by_a_dry_run(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "classes.yaml"
    file.write_text("gpu_classes: [{name: big, local: {simulated: 8}}]")
    db = ("--db", str(tmp_path / "db"))
    run("init", *db)
    assert run("classes", "apply", str(file), "--dry-run", *db).out.splitlines()[0] == "big: added"
    assert run("classes", "list", "--json", *db).json == []
    # Elsewhere a differing file is refused; applying it is how an operator ends the difference.
    monkeypatch.setenv("LANCEGPU_GPU_CLASSES", str(file))
    assert run("classes", "apply", str(file), *db).status == 0
    file.write_text("gpu_classes: [{name: small, local: {simulated: 1}}]")
    assert run("classes", "list", *db).status == 1
    assert run("classes", "apply", str(file), *db).out.splitlines() == ["big: removed", "small: added"]


def test_init_takes_gpu_classes_and_is_no_harm_the_second_time(run: Any, tmp_path: Path):
    (tmp_path / "classes.yaml").write_text("gpu_classes: [{name: big, local: {simulated: 8}}]")
    for _ in range(2):
        ran = run("init", "--db", str(tmp_path / "db"), "--gpu-classes", str(tmp_path / "classes.yaml"))
        assert ran.status == 0
    assert json.loads(run("classes", "list", "--db", str(tmp_path / "db"), "--json").out)[0]["name"] == "big"


def test_the_database_may_be_named_before_the_command_or_after_it_or_be_the_current_folder(
    run: Any, shop: Path, fresh_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LANCEGPU_DB")
    assert run("tables").status == 1
    named = [run("--db", str(shop), "tables"), run("tables", "--db", str(shop))]
    monkeypatch.chdir(shop)
    assert [ran.out for ran in named] == [run("tables").out] * 2


def test_a_job_that_has_finished_is_not_resumed(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--state", "finished", "--json").json[0]
    ran = run("jobs", "resume", job["id"])
    assert (ran.status, "has finished" in ran.err) == (1, True)


def test_a_functions_events_are_shown(run: Any, shop: Path):
    with lg.connect(shop, runtime_folder=shop.parent / "run") as db:
        db.alter_function("text_size", cpus=2)
    assert [event["kind"] for event in run("functions", "show", "text_size", "--json").json["events"]] == [
        "registered",
        "placement_changed",
    ]
    assert re.search(
        r"placement_changed +The placement of text_size changes: cpus from 1 to 2",
        run("functions", "show", "text_size").out,
    )


def test_a_refresh_left_to_an_agent_prints_its_job_and_that_there_is_none(run: Any, caplog: pytest.LogCaptureFixture):
    ran = run("refresh", "new_ones", "size", "--no-wait")
    assert (ran.status, len(ran.out.split())) == (0, 1)
    assert "No agent serves this database" in caplog.text
    job = ran.out.strip()
    assert run("jobs", "show", job, "--json").json["state"] == "queued"
    assert run("jobs", "watch", job).status == 75
    ran = run("jobs", "pause", job)
    assert (ran.status, ran.out) == (0, f"Job {job} is paused.\n")
    ran = run("jobs", "resume", job, "--no-wait", "--json")
    assert (ran.status, ran.json["state"]) == (0, "queued")
    assert run("jobs", "cancel", job).out == f"Job {job} is cancelled.\n"


def test_a_job_that_has_ended_is_paused_in_vain(run: Any):
    job = run("jobs", "list", "--table", "reviews", "--json").json[-1]
    ran = run("jobs", "pause", job["id"])
    assert (ran.status, ran.out) == (0, f"Job {job['id']} is finished.\n")


def test_an_agent_that_cannot_listen_there_says_so(run: Any):
    ran = run("agent", "--port", "1", "--host", "192.0.2.1")
    assert (ran.status, "cannot listen on 192.0.2.1 port 1" in ran.err) == (1, True), ran.err


def test_a_view_is_given_a_schedule(run: Any):
    assert run("schedule", "set", "long_ones", "on change").out == "long_ones is refreshed on change.\n"
    assert run("schedules", "long_ones", "--json").json[0]["rule"] == "on change"
    assert "it is a table" in run("schedule", "set", "reviews", "on change").err
    run("schedule", "set", "long_ones", "every 10 minutes")


def test_a_schedule_is_set_switched_off_and_on_and_dropped(run: Any):
    assert run("schedule", "set", "reviews", "size", "cron 0 3 * * * Europe/Paris").status == 0
    assert run("schedule", "disable", "reviews.size").status == 0
    assert run("schedules", "reviews", "--json").json[0]["state"] == "disabled"
    assert run("schedule", "enable", "reviews.size").status == 0
    assert "cron 0 3 * * * Europe/Paris" in run("schedules", "reviews").out
    assert run("schedule", "drop", "reviews.size").status == 0
    assert run("schedules", "reviews", "--json").json == []
    assert "no schedule of reviews.size" in run("schedule", "drop", "reviews.size").err
