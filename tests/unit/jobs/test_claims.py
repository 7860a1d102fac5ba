"""Who may take which job, decided without any catalog."""

from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.catalog.models import AgentRecord, JobRecord, ProcessIdentity, utc_now
from lancegpu_sql.jobs.claims import SILENT_SHARE, Silence, beat_seconds, is_serving, next_jobs

KINDS = ("refresh_column",)
ELSEWHERE = ProcessIdentity(host="elsewhere", pid=1, started_at=1.0, boot="1" * 36)
GONE = ProcessIdentity.current().model_copy(update={"started_at": -1.0})


def job(column: str, **changes: Any) -> JobRecord:
    return JobRecord.new("refresh_column", table="t", columns=[column]).model_copy(update=changes)


def chosen(queued: list[JobRecord], busy: tuple[JobRecord, ...] = (), room: int = 10) -> list[JobRecord]:
    return next_jobs(queued, busy, kinds=KINDS, room=room)


def test_the_oldest_jobs_are_taken_first_and_no_more_than_there_is_room_for() -> None:
    jobs = [job(column) for column in "abc"]
    assert chosen(jobs[::-1], room=2) == jobs[:2]
    assert chosen(jobs, room=0) == []


def test_of_several_jobs_about_one_column_only_the_oldest_is_taken() -> None:
    first, second, other = job("a"), job("a"), job("b")
    assert chosen([second, other, first]) == [first, other]


def test_a_job_about_a_column_that_is_refreshed_by_anyone_is_left_for_later() -> None:
    assert chosen([job("a"), other := job("b")], busy=(job("a"),)) == [other]


def test_jobs_that_need_the_process_that_made_them_are_left_alone() -> None:
    assert chosen([JobRecord.new("create_function")]) == []


def test_a_job_that_a_process_still_holds_is_left_alone() -> None:
    assert chosen([job("a", owner=ELSEWHERE)]) == []


def test_silence_is_measured_from_the_last_sign_of_life_that_was_seen() -> None:
    silence = Silence(limit_seconds=10)
    assert silence.look({"a": 1, "b": 1}, now=0) == []
    assert silence.look({"a": 2, "b": 1}, now=9) == []
    assert silence.look({"a": 2, "b": 1}, now=10) == ["b"]
    assert silence.look({"a": 2, "b": 2}, now=19) == ["a"]


def test_one_that_came_back_under_the_same_name_is_watched_anew() -> None:
    silence = Silence(limit_seconds=10)
    silence.look({"a": 1}, now=0)
    silence.look({}, now=5)
    assert silence.look({"a": 1}, now=11) == []


@pytest.mark.parametrize("lease_seconds", [1.0, 30.0, 600.0])
def test_a_death_is_seen_within_the_lease_whenever_it_happens(lease_seconds: float) -> None:
    look_seconds = min(0.5, beat_seconds(lease_seconds))
    seen_late_seconds, concluded_late_seconds = look_seconds, look_seconds
    assert seen_late_seconds + lease_seconds * SILENT_SHARE + concluded_late_seconds <= lease_seconds * 1.0001


def agent(identity: ProcessIdentity, silent_seconds: float) -> AgentRecord:
    now = utc_now()
    return AgentRecord(
        id="a",
        identity=identity,
        kinds=KINDS,
        concurrency=1,
        lease_seconds=30,
        started_at=now,
        seen_at=now,
        silent_seconds=silent_seconds,
    )


@pytest.mark.parametrize(
    ("identity", "silent_seconds", "serves"),
    [
        (ProcessIdentity.current(), 1e9, True),
        (GONE, 0, False),
        (ELSEWHERE, 29, True),
        (ELSEWHERE, 30, False),
    ],
)
def test_an_agent_serves_if_the_kernel_says_so_or_else_if_it_was_heard_lately(
    identity: ProcessIdentity, silent_seconds: float, serves: bool
) -> None:
    assert is_serving(agent(identity, silent_seconds)) is serves
