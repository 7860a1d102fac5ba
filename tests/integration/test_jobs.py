"""Jobs in this process and seen from others: their record stays true whatever ends them."""

from __future__ import annotations

import io
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from lancegpu_sql.catalog.models import JobRecord, JobState, ProcessIdentity, WaitingOn, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import Cancelled, Conflict, JobFailed, RowFailed, StillWaiting
from lancegpu_sql.jobs import (
    FollowedJob,
    JobContext,
    JobRunner,
    RunningJob,
    cancel,
    prune,
    read_log,
    settle_dead,
    watch,
)

WAIT_SECONDS = 30.0
FULL = WaitingOn(gpu_class="l4", since=utc_now(), reason="in_use", message="all 2 GPUs of class l4 are taken")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


@pytest.fixture
def runner(catalog: Catalog, tmp_path: Path) -> Iterator[JobRunner]:
    with JobRunner(catalog, tmp_path, watch_interval_seconds=0.02) as runner:
        yield runner


def a_job() -> JobRecord:
    return JobRecord.new("refresh_column", table="reviews", columns=["score"])


def start(runner: JobRunner, work: Callable[[JobContext], dict[str, Any]]) -> RunningJob:
    return runner.start(a_job(), work)


def until_cancelled(context: JobContext) -> dict[str, Any]:
    context.running("computing")
    assert context.cancelled.wait(WAIT_SECONDS)
    raise Cancelled("stopped")


def seen(catalog: Catalog, job: RunningJob, wanted: Callable[[JobRecord], bool]) -> JobRecord:
    """Return the job as the catalog has it once it is as wanted."""
    record = catalog.job(job.id)
    while not wanted(record):
        changed = FollowedJob(catalog, job.id).next_change(record, WAIT_SECONDS)
        assert changed != record
        record = changed
    return record


def kinds(catalog: Catalog, job_id: str) -> list[str]:
    return [event.kind for event in catalog.events(job_id=job_id)]


# --- the life of a job


def test_a_job_gives_its_result_and_its_record_tells_the_same(catalog: Catalog, runner: JobRunner) -> None:
    job = start(runner, lambda context: {"rows": 3})
    assert job.wait(WAIT_SECONDS) == {"rows": 3}
    record = catalog.job(job.id)
    assert (record.state, record.result, record.owner) == ("finished", {"rows": 3}, ProcessIdentity.current())
    assert record.started_at is not None
    assert record.finished_at is not None
    assert kinds(catalog, job.id) == ["started", "finished"]


def test_waiting_and_going_on_are_seen_by_every_process(catalog: Catalog, runner: JobRunner) -> None:
    go_on = threading.Event()

    def work(context: JobContext) -> dict[str, Any]:
        context.waiting(FULL)
        context.waiting(FULL)
        assert go_on.wait(WAIT_SECONDS)
        context.running("computing")
        context.running("computing")
        return {}

    job = start(runner, work)
    record = seen(catalog, job, lambda record: record.state is JobState.WAITING)
    assert record.waiting_on == FULL
    go_on.set()
    job.wait(WAIT_SECONDS)
    assert catalog.job(job.id).waiting_on is None
    assert kinds(catalog, job.id) == ["started", "waiting", "running", "finished"]


def test_a_new_reason_is_news_and_waiting_counts_from_its_start(runner: JobRunner, catalog: Catalog) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.waiting(FULL)
        context.waiting(FULL.model_copy(update={"since": utc_now() + timedelta(hours=1), "message": "no node"}))
        context.cancelled.wait(WAIT_SECONDS)
        return {}

    job = start(runner, work)
    record = seen(catalog, job, lambda record: record.waiting_on is not None and record.waiting_on.message == "no node")
    assert record.waiting_on == FULL.model_copy(update={"message": "no node"})
    job.cancel()


def test_progress_is_written_while_the_work_goes_on(catalog: Catalog, runner: JobRunner) -> None:
    go_on = threading.Event()

    def work(context: JobContext) -> dict[str, Any]:
        context.running("computing")
        context.progress(rows_planned=10)
        context.progress(rows_computed=4, rows_reused=1)
        assert go_on.wait(WAIT_SECONDS)
        return {}

    job = start(runner, work)
    record = seen(catalog, job, lambda record: record.progress is not None and record.progress.rows_computed == 4)
    assert record.progress is not None
    assert (record.progress.phase, record.progress.rows_planned, record.progress.rows_reused) == ("computing", 10, 1)
    go_on.set()
    job.wait(WAIT_SECONDS)


def test_timings_tell_phases_and_workers(catalog: Catalog, runner: JobRunner) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.running("computing")
        context.timings("one", computing_seconds=1.0)
        context.timings("one", starting_seconds=0.5, computing_seconds=1.5)
        context.running("publishing")
        return {}

    job = start(runner, work)
    job.wait(WAIT_SECONDS)
    timings = catalog.job(job.id).timings
    assert timings is not None
    assert (set(timings["phases"]), timings["workers"]["one"]) == (
        {"computing", "publishing"},
        {"computing_seconds": 1.5, "starting_seconds": 0.5},
    )


def test_a_late_report_changes_nothing(runner: JobRunner, tmp_path: Path) -> None:
    contexts: list[JobContext] = []

    def work(context: JobContext) -> dict[str, Any]:
        contexts.append(context)
        return {}

    job = start(runner, work)
    job.wait(WAIT_SECONDS)
    ended = job.record
    contexts[0].waiting(FULL)
    contexts[0].running("computing")
    contexts[0].progress(rows_computed=1)
    contexts[0].timings("one", computing_seconds=1.0)
    contexts[0].log("late")
    assert (job.record, read_log(tmp_path, job.id)) == (ended, "")


def test_a_log_is_kept_for_its_owner_alone(runner: JobRunner, tmp_path: Path) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.log("loading…")
        context.log("done\n")
        return {}

    job = start(runner, work)
    job.wait(WAIT_SECONDS)
    assert read_log(tmp_path, job.id) == "loading…\ndone\n"
    assert stat.S_IMODE((tmp_path / "logs" / f"{job.id}.log").stat().st_mode) == 0o600
    assert read_log(tmp_path, "another") == ""


def test_a_log_that_is_full_says_so_and_the_work_goes_on(catalog: Catalog, tmp_path: Path) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        for _ in range(100):
            context.log("x" * 99)
        return {}

    with JobRunner(catalog, tmp_path, log_limit_bytes=1000) as runner:
        job = start(runner, work)
        job.wait(WAIT_SECONDS)
    lines = read_log(tmp_path, job.id).splitlines()
    assert (len(lines), lines[-1]) == (10, "(the log is full at 1000 bytes: later lines are left out)")


def test_a_log_that_cannot_be_written_is_told_once_and_the_work_goes_on(
    catalog: Catalog, runner: JobRunner, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("in the way")

    def work(context: JobContext) -> dict[str, Any]:
        context.log("lost")
        context.log("lost")
        return {}

    job = start(runner, work)
    job.wait(WAIT_SECONDS)
    assert kinds(catalog, job.id) == ["started", "log_lost", "finished"]


# --- ends


def test_the_very_error_of_the_work_is_raised_here(catalog: Catalog, runner: JobRunner) -> None:
    error = RowFailed("row 3 raised", row_id=3, arguments={"x": float("nan")})

    def work(context: JobContext) -> dict[str, Any]:
        raise error

    job = start(runner, work)
    for _ in range(2):
        with pytest.raises(RowFailed) as caught:
            job.wait(WAIT_SECONDS)
        assert caught.value is error
    record = catalog.job(job.id)
    assert record.state is JobState.FAILED
    assert record.error == {
        "type": "RowFailed",
        "message": "row 3 raised",
        "facts": {"row_id": 3, "arguments": {"x": "nan"}},
    }


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_whatever_the_work_raises_is_recorded(catalog: Catalog, runner: JobRunner, kind: type[BaseException]) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        raise kind("unforeseen")

    job = start(runner, work)
    with pytest.raises(kind, match="unforeseen"):
        job.wait(WAIT_SECONDS)
    error = catalog.job(job.id).error
    assert error is not None
    assert (error["type"], "test_jobs.py" in error["traceback"]) == (kind.__name__, True)


def test_a_wait_that_is_over_says_for_what_the_job_waits(runner: JobRunner) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.waiting(FULL)
        context.cancelled.wait(WAIT_SECONDS)
        return {}

    job = start(runner, work)
    job.next_change(job.record.model_copy(update={"waiting_on": None, "state": JobState.RUNNING}), WAIT_SECONDS)
    while job.record.waiting_on is None:
        job.next_change(job.record, WAIT_SECONDS)
    with pytest.raises(StillWaiting, match="all 2 GPUs of class l4 are taken") as caught:
        job.wait(0.01)
    assert caught.value.facts["waiting_on"] == FULL
    job.cancel()


def test_a_job_is_cancelled_by_its_starter(catalog: Catalog, runner: JobRunner) -> None:
    job = start(runner, until_cancelled)
    job.cancel()
    with pytest.raises(Cancelled):
        job.wait(WAIT_SECONDS)
    assert catalog.job(job.id).state is JobState.CANCELLED
    assert kinds(catalog, job.id)[-1] == "cancelled"


def test_work_that_finishes_all_the_same_has_finished(catalog: Catalog, runner: JobRunner) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.cancelled.wait(WAIT_SECONDS)
        return {"rows": 3}

    job = start(runner, work)
    job.cancel()
    assert job.wait(WAIT_SECONDS) == {"rows": 3}
    assert catalog.job(job.id).state is JobState.FINISHED


def test_a_closed_runner_leaves_its_jobs_for_others_to_resume(catalog: Catalog, tmp_path: Path) -> None:
    runner = JobRunner(catalog, tmp_path)
    job = start(runner, until_cancelled)
    runner.close()
    record = catalog.job(job.id)
    assert (record.state, record.owner, record.cancel_requested) == (JobState.QUEUED, None, False)
    assert kinds(catalog, job.id)[-1] == "interrupted"
    with pytest.raises(Conflict, match="closed"):
        runner.start(record, until_cancelled)


def test_a_closed_runner_looks_no_longer_into_the_catalog_whatever_its_jobs_do(
    catalog: Catalog, tmp_path: Path
) -> None:
    go_on = threading.Event()
    runner = JobRunner(catalog, tmp_path)
    job = start(runner, lambda context: {"told": go_on.wait(WAIT_SECONDS)})
    runner.close(timeout_seconds=0.2)
    assert "lancegpu jobs" not in {thread.name for thread in threading.enumerate()}
    go_on.set()
    assert job.ended(WAIT_SECONDS)


class ResumesAtOnce(Catalog):
    """A catalog that calls back between a job's end in the record and its end in this process."""

    on_failure: Callable[[], object] | None = None

    def update_job(self, job_id: str, **changes: Any) -> JobRecord:
        record = super().update_job(job_id, **changes)
        if record.state is JobState.FAILED and self.on_failure is not None:
            self.on_failure()
        return record


def test_a_job_resumed_here_as_soon_as_it_failed_is_watched_over(tmp_path: Path) -> None:
    def fail(context: JobContext) -> dict[str, Any]:
        raise RowFailed("row 3 raised")

    record = a_job()
    with ResumesAtOnce.open(tmp_path / "resumed.sqlite") as catalog, JobRunner(catalog, tmp_path) as runner:
        catalog.on_failure = lambda: runner.start(record, until_cancelled)
        assert runner.start(record, fail).ended(WAIT_SECONDS)
        assert [job.id for job in runner.running()] == [record.id]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_nobody_runs_can_be_resumed(catalog: Catalog, runner: JobRunner, state: JobState) -> None:
    record = a_job().model_copy(update={"state": state, "error": {"type": "x"}, "cancel_requested": True})
    catalog.add_job(record)
    job = runner.start(record, lambda context: {"resumed": context.id})
    assert job.wait(WAIT_SECONDS) == {"resumed": record.id}
    assert (catalog.job(job.id).error, kinds(catalog, job.id)) == (None, ["resumed", "finished"])


def test_a_job_that_runs_cannot_be_started_again(catalog: Catalog, runner: JobRunner) -> None:
    job = start(runner, until_cancelled)
    with pytest.raises(Conflict, match="is running"):
        runner.start(job.record, until_cancelled)
    job.cancel()


def test_a_job_that_another_process_took_over_stops_here(catalog: Catalog, runner: JobRunner) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        rows = 0
        while not context.cancelled.wait(0.01):
            rows += 1
            context.progress(rows_computed=rows)
        raise Cancelled("stopped")

    job = start(runner, work)
    other = ProcessIdentity.current().model_copy(update={"pid": 1})
    catalog.update_job(job.id, owner=other)
    with pytest.raises(Conflict, match="belongs to process 1"):
        job.wait(WAIT_SECONDS)
    assert catalog.job(job.id).owner == other


# --- between processes

RUN = """
import sys
from pathlib import Path
from lancegpu_sql.catalog.models import JobRecord, WaitingOn, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import Cancelled, RowFailed
from lancegpu_sql.jobs import JobRunner

folder, how = Path(sys.argv[1]), sys.argv[2]
catalog = Catalog.open(folder / "catalog.sqlite")
runner = JobRunner(catalog, folder)

def work(context):
    context.running("computing")
    print(context.id, flush=True)
    if how in ("cancelled", "left"):
        context.cancelled.wait()
        raise Cancelled("stopped")
    sys.stdin.readline()
    if how == "failed":
        raise RowFailed("row 3 raised", row_id=3)
    return {"rows": 3}

job = runner.start(JobRecord.new("refresh_column", table="reviews", columns=["score"]), work)
if how != "left":
    job.ended(None)
"""


class Other:
    """Another process that runs one job."""

    def __init__(self, folder: Path, how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(folder), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.job_id = self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Wait for its end; return what it said on standard error."""
        return self.process.communicate(timeout=WAIT_SECONDS)[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_the_result_of_another_processs_job_is_read(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "finished") as other:
        job = FollowedJob(catalog, other.job_id)
        with pytest.raises(StillWaiting, match="is running"):
            job.wait(0.05)
        other.go_on()
        assert job.wait(WAIT_SECONDS) == {"rows": 3}
        assert job.ended()


def test_the_failure_of_another_processs_job_is_told(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "failed") as other:
        other.go_on()
        with pytest.raises(JobFailed, match="row 3 raised") as caught:
            FollowedJob(catalog, other.job_id).wait(WAIT_SECONDS)
        assert (caught.value.facts["error_type"], caught.value.facts["error_facts"]) == ("RowFailed", {"row_id": 3})


def test_another_processs_job_is_cancelled_within_a_second_or_so(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "cancelled") as other:
        asked_at = time.monotonic()
        FollowedJob(catalog, other.job_id).cancel()
        with pytest.raises(Cancelled, match="what it finished is kept"):
            FollowedJob(catalog, other.job_id).wait(WAIT_SECONDS)
        assert time.monotonic() - asked_at < 5.0  # a second on a quiet machine


def test_a_job_whose_process_was_killed_is_queued_again(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "finished") as other:
        assert settle_dead(catalog) == []
        other.process.kill()
        other.process.wait(WAIT_SECONDS)
        (record,) = settle_dead(catalog)
    assert (record.id, record.state, record.owner) == (other.job_id, JobState.QUEUED, None)
    assert kinds(catalog, record.id)[-1] == "interrupted"
    assert settle_dead(catalog) == []


def test_who_waits_for_a_killed_processs_job_is_told(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "finished") as other:
        other.process.kill()
        with pytest.raises(StillWaiting, match="no process runs it"):
            FollowedJob(catalog, other.job_id).wait(WAIT_SECONDS)


def test_a_job_asked_to_stop_whose_process_was_killed_is_cancelled(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "finished") as other:
        catalog.request_cancel(other.job_id)
        other.process.kill()
        other.process.wait(WAIT_SECONDS)
        assert cancel(catalog, other.job_id).state is JobState.CANCELLED


def test_a_program_that_ends_leaves_its_job_to_be_resumed_and_says_so(catalog: Catalog, tmp_path: Path) -> None:
    with Other(tmp_path, "left") as other:
        assert f"Job {other.job_id} (reviews.score) had not ended when the program did" in other.end()
        assert other.process.returncode == 0
    assert catalog.job(other.job_id).state is JobState.QUEUED


def test_a_job_that_no_process_took_is_cancelled_at_once(catalog: Catalog) -> None:
    record = a_job()
    catalog.add_job(record)
    assert cancel(catalog, record.id).state is JobState.CANCELLED
    assert cancel(catalog, record.id).state is JobState.CANCELLED


def test_a_job_of_another_host_is_left_alone(catalog: Catalog) -> None:
    elsewhere = ProcessIdentity(host="elsewhere", pid=1, started_at=1.0, boot="1" * 36)
    catalog.add_job(a_job().model_copy(update={"state": JobState.RUNNING, "owner": elsewhere}))
    assert settle_dead(catalog) == []


def test_old_jobs_are_forgotten_with_their_logs(catalog: Catalog, runner: JobRunner, tmp_path: Path) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.log("hello")
        return {}

    job = start(runner, work)
    job.wait(WAIT_SECONDS)
    assert prune(catalog, tmp_path, retention_days=1) == []
    catalog.update_job(job.id, finished_at=utc_now() - timedelta(days=2))
    assert prune(catalog, tmp_path, retention_days=1) == [job.id]
    assert (catalog.jobs(), read_log(tmp_path, job.id)) == ([], "")


def test_jobs_load_neither_sqlalchemy_nor_rich_before_they_are_used() -> None:
    script = "import sys, lancegpu_sql.jobs; print({'sqlalchemy', 'rich'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


# --- the catalog in trouble, and what it costs


def test_work_goes_on_while_the_catalog_is_locked_and_its_story_is_written_afterwards(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite", busy_timeout_seconds=0.02) as catalog:
        with JobRunner(catalog, tmp_path, watch_interval_seconds=0.02) as runner:
            locked, unlock = threading.Event(), threading.Event()

            def work(context: JobContext) -> dict[str, Any]:
                assert locked.wait(WAIT_SECONDS)
                context.waiting(FULL)
                context.running("computing")
                unlock.set()
                context.cancelled.wait(WAIT_SECONDS)
                return {}

            job = start(runner, work)
            with catalog._connection.writing():
                locked.set()
                assert unlock.wait(WAIT_SECONDS)
            seen(catalog, job, lambda record: record.state is JobState.RUNNING and record.progress is not None)
            job.cancel()
            job.wait(WAIT_SECONDS)
        assert kinds(catalog, job.id)[:3] == ["started", "waiting", "running"]


def ended_while_locked(catalog: Catalog, runner: JobRunner) -> RunningJob:
    """A job that ends while the catalog takes nothing."""
    begun, locked = threading.Event(), threading.Event()

    def work(context: JobContext) -> dict[str, Any]:
        begun.set()
        assert locked.wait(WAIT_SECONDS)
        return {"rows": 1}

    job = start(runner, work)
    assert begun.wait(WAIT_SECONDS)
    with catalog._connection.writing():
        locked.set()
        assert job.wait(WAIT_SECONDS) == {"rows": 1}
    return job


def test_an_end_that_could_not_be_written_is_written_as_soon_as_it_can_be(tmp_path: Path) -> None:
    with (
        Catalog.open(tmp_path / "catalog.sqlite", busy_timeout_seconds=0.02) as catalog,
        JobRunner(catalog, tmp_path, watch_interval_seconds=0.02) as runner,
    ):
        job = ended_while_locked(catalog, runner)
        seen(catalog, job, lambda record: record.state is JobState.FINISHED)


def test_an_end_that_could_not_be_written_is_written_by_closing(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite", busy_timeout_seconds=0.02) as catalog:
        with JobRunner(catalog, tmp_path, watch_interval_seconds=WAIT_SECONDS) as runner:
            job = ended_while_locked(catalog, runner)
        assert catalog.job(job.id).state is JobState.FINISHED


def test_a_job_whose_end_is_not_written_yet_can_be_gone_on_with_here(tmp_path: Path) -> None:
    with (
        Catalog.open(tmp_path / "catalog.sqlite", busy_timeout_seconds=0.02) as catalog,
        JobRunner(catalog, tmp_path, watch_interval_seconds=WAIT_SECONDS) as runner,
    ):
        job = ended_while_locked(catalog, runner)
        with pytest.raises(Conflict, match="has finished"):
            runner.start(job.record, lambda _context: {})


def test_a_wait_may_be_given_more_time_than_there_is(catalog: Catalog, runner: JobRunner) -> None:
    job = start(runner, lambda context: {"rows": 1})
    assert job.wait(1e300) == {"rows": 1}
    assert FollowedJob(catalog, job.id).wait(float("inf")) == {"rows": 1}


def test_a_watcher_of_a_running_job_sees_it_end(runner: JobRunner) -> None:
    stream = io.StringIO()
    job = start(runner, lambda context: {"rows": 1})
    assert watch(job, stream, "quiet").state is JobState.FINISHED
    assert stream.getvalue().startswith("reviews.score: finished")


def test_the_bookkeeping_of_a_whole_job_is_cheap(runner: JobRunner) -> None:
    def work(context: JobContext) -> dict[str, Any]:
        context.running("computing")
        context.progress(rows_planned=1_000)
        for rows in range(100):
            context.progress(rows_computed=rows * 10)
        context.running("publishing")
        return {"rows": 1_000}

    def seconds_of_one() -> float:
        began_at = time.perf_counter()
        start(runner, work).wait(WAIT_SECONDS)
        return time.perf_counter() - began_at

    # 5 ms on a quiet machine; the best of some, because others may use this one.
    assert min(seconds_of_one() for _ in range(20)) < 0.02
