"""What crosses files and processes keeps its meaning on the way."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from lancegpu_sql.catalog.models import (
    ComputedColumn,
    JobRecord,
    JobState,
    ProcessIdentity,
    Progress,
    WaitingOn,
    job_made_at,
    new_job_id,
    utc_now,
)


def test_a_job_survives_json() -> None:
    waiting_on = WaitingOn(gpu_class="l4", since=utc_now(), reason="in_use", message="all taken", detail={"by": ["x"]})
    job = JobRecord.new("refresh_column", table="t", columns=["a"], request={"where": None}).model_copy(
        update={"waiting_on": waiting_on, "owner": ProcessIdentity.current(), "progress": Progress(rows_planned=3)}
    )
    assert JobRecord.model_validate_json(job.model_dump_json()) == job


def test_a_computed_column_survives_json() -> None:
    column = ComputedColumn(
        column="vec",
        function="embed",
        version=2,
        digest="0" * 32,
        inputs={"text": 3},
        bound={"model": "small", "size": [1, None]},
        proof_column="_lancegpu_proof_vec",
    )
    assert ComputedColumn.model_validate_json(column.model_dump_json()) == column


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="rows_done"):
        Progress.model_validate({"rows_done": 3})


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Progress().rows_computed = 3


def test_what_is_not_known_is_none_and_not_zero() -> None:
    assert (Progress().rows_planned, Progress().rows_per_second, Progress().seconds_left) == (None, None, None)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        WaitingOn(gpu_class=None, since=datetime(2026, 1, 1), reason="in_use", message="")  # noqa: DTZ001


def test_a_time_of_any_zone_becomes_utc() -> None:
    since = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    kept = WaitingOn(gpu_class=None, since=since, reason="in_use", message="").since
    assert (kept, kept.tzinfo) == (datetime(2026, 1, 1, 7, tzinfo=UTC), UTC)


def test_ids_of_jobs_sort_by_time_and_never_repeat() -> None:
    ids = [new_job_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert [job_id[:18] for job_id in ids] == sorted(job_id[:18] for job_id in ids)


def test_ids_of_jobs_are_uuids_of_version_7() -> None:
    job_id = new_job_id()
    assert (len(job_id), job_id[14], job_id[19] in "89ab") == (36, "7", True)


@pytest.mark.parametrize("state", list(JobState))
def test_three_states_are_ends(state: JobState) -> None:
    assert state.ended == (state in {"finished", "failed", "cancelled"})


def test_this_process_lives() -> None:
    assert ProcessIdentity.current().is_alive() is True


def test_a_recycled_pid_is_another_process() -> None:
    present = ProcessIdentity.current()
    assert present.model_copy(update={"started_at": present.started_at - 1}).is_alive() is False


def test_a_process_from_before_a_reboot_is_dead() -> None:
    present = ProcessIdentity.current()
    assert present.model_copy(update={"boot": "0" * 36 + "[4026531836]"}).is_alive() is False


def test_of_another_hosts_process_nothing_is_known() -> None:
    other = ProcessIdentity(host="elsewhere", pid=1, started_at=1.0, boot="1" * 36 + "[4026531836]")
    assert other.is_alive() is None


def test_of_another_containers_process_nothing_is_known() -> None:
    present = ProcessIdentity.current()
    assert present.model_copy(update={"boot": present.boot[:36] + "[1]"}).is_alive() is None


def test_a_jobs_id_tells_when_it_was_made() -> None:
    before = time.time()
    made = job_made_at(new_job_id())
    assert made is not None
    assert before - 0.001 <= made <= time.time()
    assert job_made_at("job") is None
    assert job_made_at("00000000-0000-4000-8000-000000000000") is None
