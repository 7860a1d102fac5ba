"""What jobs did, as numbers that only grow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lancegpu_sql.catalog.models import JobRecord, JobState, ProcessIdentity, Progress, WaitingOn, utc_now
from lancegpu_sql.catalog.schedule_models import Backlog, ScheduleChange, ScheduleRecord, ScheduleRule
from lancegpu_sql.jobs.metrics import Metrics, schedules_text
from lancegpu_sql.jobs.schedules.counts import ScheduleCounts

NOW = utc_now()
JOB = JobRecord.new("refresh_column", table="t", columns=["y"]).model_copy(
    update={"state": JobState.RUNNING, "owner": ProcessIdentity.current(), "lease": "first"}
)


def worked(seconds: float, calls: int, rows: int, **changes: Any) -> JobRecord:
    timings = {"workers": {"worker 1": {"starting_seconds": 2.0, "computing_seconds": seconds, "calls": calls}}}
    return JOB.model_copy(update={"timings": timings, "progress": Progress(rows_computed=rows)} | changes)


def samples(metrics: Metrics, waiting: tuple[JobRecord, ...] = ()) -> dict[str, float]:
    return read(metrics.text({JobState.QUEUED: 3}, waiting, NOW))


def read(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_what_a_job_does_is_added_once_however_often_it_is_looked_at() -> None:
    metrics = Metrics(lambda record: "embed")
    for record in (worked(1, 10, 100), worked(1, 10, 100), worked(4, 25, 300)):
        metrics.observe(record)
    metrics.observe(worked(5, 30, 400, state=JobState.FINISHED))
    found = samples(metrics)
    assert found['lancegpu_worker_seconds_total{function="embed",state="busy"}'] == 5
    assert found['lancegpu_worker_seconds_total{function="embed",state="starting"}'] == 2
    assert found['lancegpu_rows_total{function="embed",outcome="computed"}'] == 400
    assert found['lancegpu_calls_total{function="embed"}'] == 30


def test_a_worker_that_was_leased_again_counts_on() -> None:
    metrics = Metrics(lambda record: "embed")
    metrics.observe(worked(4, 25, 300))
    metrics.observe(worked(1, 5, 350))
    assert samples(metrics)['lancegpu_calls_total{function="embed"}'] == 30


def test_another_run_of_a_job_counts_on() -> None:
    metrics = Metrics(lambda record: "embed")
    metrics.observe(worked(4, 25, 300, state=JobState.QUEUED, owner=None))
    metrics.observe(worked(1, 5, 50, lease="second"))
    assert samples(metrics)['lancegpu_rows_total{function="embed",outcome="computed"}'] == 350


def test_what_upkeep_did_is_counted_when_it_is_done() -> None:
    metrics = Metrics(lambda record: "")
    job = JOB.model_copy(update={"kind": "optimize"})
    metrics.observe(job)
    done = {"fragments_removed": 10, "versions_removed": 2, "bytes_removed": 3000}
    metrics.observe(job.model_copy(update={"state": JobState.FINISHED, "result": done}))
    found = samples(metrics)
    assert found['lancegpu_upkeep_total{what="fragments"}'] == 10
    assert found['lancegpu_upkeep_total{what="bytes"}'] == 3000


def test_jobs_are_counted_by_state_and_waits_by_class_and_reason() -> None:
    def waits(seconds: float) -> JobRecord:
        since = NOW - timedelta(seconds=seconds)
        waiting_on = WaitingOn(gpu_class="l4", since=since, reason="in_use", message="taken")
        return JOB.model_copy(update={"waiting_on": waiting_on})

    found = samples(Metrics(lambda record: ""), (waits(5), waits(60)))
    assert found['lancegpu_jobs{state="queued"}'] == 3
    assert found['lancegpu_jobs_waiting{gpu_class="l4",reason="in_use"}'] == 2
    assert found['lancegpu_job_waiting_seconds{gpu_class="l4",reason="in_use"}'] == 60


def test_names_are_escaped_as_prometheus_reads_them() -> None:
    metrics = Metrics(lambda record: 'a"b\\c')
    metrics.observe(worked(1, 1, 1))
    assert 'function="a\\"b\\\\c"' in metrics.text({}, (), NOW)


SCHEDULE = ScheduleRecord(
    subject="view v", job_kind="refresh_view", table="v", rule=ScheduleRule(kind="interval"), created_at=NOW
)


def test_schedules_are_counted_by_what_became_of_their_due_times() -> None:
    counts = ScheduleCounts()
    queued = ScheduleChange(SCHEDULE.subject, {}, {"skipped": 0}, job=JOB)
    counts.dealt_with(SCHEDULE, queued, 2.5)
    counts.dealt_with(SCHEDULE, queued, -1.0)  # by another clock than the one that said when it is due
    counts.dealt_with(SCHEDULE, ScheduleChange(SCHEDULE.subject, {}, {"skipped": 3}), 4.0)
    counts.dealt_with(SCHEDULE, ScheduleChange(SCHEDULE.subject, {}, {"seen": {}}), 4.0)  # nothing had changed
    counts.failed(SCHEDULE)
    found = read(schedules_text(counts.totals(), Backlog(), NOW))
    assert [found[f'lancegpu_schedule_{what}_total{{kind="view"}}'] for what in ("runs", "failures", "skipped")] == [
        2,
        1,
        1,
    ]
    assert found['lancegpu_schedule_lateness_seconds_sum{kind="view"}'] == 2.5
    assert found['lancegpu_schedule_lateness_seconds_count{kind="view"}'] == 2
    assert found['lancegpu_schedule_runs_total{kind="column"}'] == 0


def test_the_backlog_of_schedules_says_how_many_are_due_and_since_when() -> None:
    backlog = Backlog(due=7, due_since=NOW - timedelta(seconds=90), failing=2)
    found = read(schedules_text({}, backlog, NOW))
    assert found["lancegpu_schedules_due"] == 7
    assert found["lancegpu_schedule_overdue_seconds"] == 90
    assert found["lancegpu_schedules_failing"] == 2
