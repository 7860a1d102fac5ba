"""Schedules in the catalog, and the scheduler that queues their jobs, by a clock of the test's own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lancegpu_sql.catalog.models import EventDraft, JobState, ProcessIdentity, WaitingOn
from lancegpu_sql.catalog.schedule_models import Backlog, ScheduleChange, ScheduleRecord, column_subject
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import ScheduleNotFound
from lancegpu_sql.jobs.schedules.hooks import HookCaller, hook_of
from lancegpu_sql.jobs.schedules.rule import first_run, read
from lancegpu_sql.jobs.schedules.scheduler import Scheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KIND = "refresh_column"


@dataclass
class Tables:
    """What the scheduler asks about tables, as the test says it is."""

    stamps: dict[str, str] = field(default_factory=dict)
    news: bool = True

    def stamp(self, table: str) -> str | None:
        return self.stamps.get(table)

    def has_news(self, schedule: ScheduleRecord) -> bool:
        return self.news

    def seen_after(self, schedule: ScheduleRecord, result: Mapping[str, Any]) -> dict[str, str] | None:
        return {table: self.stamps[table] for table in schedule.sources} if result.get("all") else None


class Called(HookCaller):
    """Keeps what would be called."""

    def __init__(self) -> None:
        super().__init__(1.0, commands=True)
        self.facts: list[Mapping[str, Any]] = []

    def call(self, hook: object, facts: Mapping[str, Any], told: Callable[[str | None], None]) -> None:
        self.facts.append(facts)
        told(None)


class Office:
    """A catalog, and schedulers that share a clock."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.tables, self.hooks = catalog, Tables(), Called()
        self.now = NOON
        self.first, self.second = self.scheduler(), self.scheduler()

    def scheduler(self) -> Scheduler:
        return Scheduler(
            self.catalog,
            self.tables,
            job_kinds=[KIND],
            hooks=self.hooks,
            debounce_seconds=2,
            now=lambda: self.now,
        )

    def set(self, text: str = "every 10 minutes", column: str = "vec", **values: Any) -> None:
        subject, rule = column_subject("docs", column), read(text)
        self.tables.stamps.setdefault("docs", "1")
        record = ScheduleRecord(
            subject=subject,
            job_kind=KIND,
            table="docs",
            columns=(column,),
            request={"gpu_class": "a100"},
            sources=("docs",),
            rule=rule,
            created_at=self.now,
            next_run=first_run(rule, subject, self.now),
        )
        self.catalog.put_schedule(record.model_copy(update=values), EventDraft(kind="set", message="set"))

    def after(self, **span: float) -> None:
        """Let time pass, and both agents look."""
        self.now += timedelta(**span)
        self.first.look()
        self.second.look()

    def jobs(self) -> list[Any]:
        return self.catalog.jobs()

    def end(self, state: JobState = JobState.FINISHED, **values: Any) -> None:
        for job in self.catalog.jobs(states=[JobState.QUEUED]):
            self.catalog.update_job(job.id, state=state, finished_at=self.now, **values)

    def schedule(self, column: str = "vec") -> ScheduleRecord:
        return self.catalog.schedule(column_subject("docs", column)).schedule

    def told(self) -> list[str]:
        return [event.kind for event in self.catalog.events(subject="schedule column docs.vec")]


@pytest.fixture(params=["sqlite", "postgresql"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    here = request.param == "sqlite"
    url = tmp_path / "catalog.sqlite" if here else request.getfixturevalue("postgresql_server").url()
    with Catalog.open(url, database=uuid.uuid4().hex) as catalog:
        yield Office(catalog)


ERROR = {"type": "RowFailed", "message": "row 7", "facts": {}}


def test_a_due_schedule_becomes_one_job_whoever_looks(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    (job,) = office.jobs()
    assert (job.kind, job.table, job.columns, job.request) == (KIND, "docs", ("vec",), {"gpu_class": "a100"})
    (event,) = office.catalog.events(job_id=job.id)
    assert (event.kind, event.detail["due"]) == ("queued", NOON.isoformat())
    schedule = office.schedule()
    assert (schedule.job_id, schedule.last_run, schedule.next_run) == (job.id, NOON, NOON + timedelta(minutes=10))


def test_missed_runs_run_once(office: Office) -> None:
    office.set()
    office.after(hours=5, seconds=1)
    office.end()
    office.after(seconds=1)
    assert len(office.jobs()) == 1
    assert office.schedule().next_run == NOON + timedelta(hours=5, minutes=10)


def test_a_due_refresh_whose_last_one_goes_on_is_skipped_and_says_so_once(office: Office) -> None:
    office.set()
    for _ in range(4):
        office.after(minutes=10)
    assert (len(office.jobs()), office.schedule().skipped, office.told()) == (1, 3, ["skipped"])
    office.end()
    office.after(minutes=10)
    assert (len(office.jobs()), office.schedule().skipped) == (2, 0)


def test_a_failing_one_backs_off_and_a_success_forgets_it(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    for streak, seconds in ((1, 10), (2, 20), (3, 40)):
        office.end(JobState.FAILED, error=ERROR)
        office.after(seconds=0)
        assert (office.schedule().streak, office.schedule().next_run) == (
            streak,
            office.now + timedelta(seconds=seconds),
        )
        office.after(seconds=seconds)
        assert len(office.jobs()) == streak + 1
    assert office.schedule().last_error == {"type": "RowFailed", "message": "row 7"}
    office.end(result={"rows_assigned": 3})
    office.after(seconds=0)
    assert (office.schedule().streak, office.schedule().last_error) == (0, None)
    assert office.schedule().last_result == {"rows_assigned": 3}
    assert office.told() == ["backs_off"] * 3 + ["recovered"]


def test_what_is_due_and_what_fails_is_counted_for_those_who_watch(office: Office) -> None:
    office.set(column="vec")
    office.set("every 20 minutes", column="second")
    office.now += timedelta(minutes=1)
    assert office.catalog.schedules_backlog(office.now) == Backlog(due=2, due_since=NOON, failing=0)
    office.after(seconds=0)
    office.end(JobState.FAILED, error=ERROR)
    office.after(seconds=0)
    assert office.catalog.schedules_backlog(office.now) == Backlog(due=0, due_since=None, failing=2)
    totals = [one.counts.totals() for one in (office.first, office.second)]
    counted = {what: sum(one.get((what, "column"), 0.0) for one in totals) for what in ("runs", "failures", "skipped")}
    assert counted == {"runs": 2, "failures": 2, "skipped": 0}
    assert totals[0]["late_seconds", "column"] == 120


def test_a_job_that_someone_cancelled_or_that_is_forgotten_is_no_failure(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    office.end(JobState.CANCELLED)
    office.after(minutes=10)
    office.end()
    office.catalog.prune_jobs(office.now + timedelta(days=1))
    office.after(minutes=10)
    assert (len(office.jobs()), office.schedule().streak) == (1, 0)


def test_where_nothing_has_changed_a_due_time_makes_no_job(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    office.end(result={"all": True, "rows_remaining": 0})
    for _ in range(3):
        office.after(minutes=10)
    assert (len(office.jobs()), office.schedule().next_run) == (1, office.now + timedelta(minutes=10))
    office.tables.stamps["docs"] = "2"
    office.after(minutes=10)
    assert len(office.jobs()) == 2


@pytest.mark.parametrize("left", [{"rows_remaining": 1}, {}])
def test_where_a_refresh_left_something_a_due_time_makes_a_job(office: Office, left: dict[str, int]) -> None:
    office.set()
    office.after(seconds=0)
    office.end(result={"all": True, **left})
    office.after(minutes=10)
    assert len(office.jobs()) == 2


def test_what_a_cancelled_refresh_was_to_do_is_done_by_the_next(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    office.end(result={"all": True, "rows_remaining": 0})
    office.after(seconds=0)
    office.tables.stamps["docs"] = "2"
    office.after(minutes=10)
    office.end(JobState.CANCELLED)
    office.after(minutes=10)
    assert len(office.jobs()) == 3


def test_without_sources_each_due_time_makes_a_job(office: Office) -> None:
    office.set(sources=())
    for _ in range(3):
        office.after(minutes=10)
        office.end(result={"all": True, "rows_remaining": 0})
    assert len(office.jobs()) == 3


def test_a_schedule_that_cannot_be_dealt_with_backs_off_alone(office: Office) -> None:
    nowhere = read("cron * * * * *").model_copy(update={"time_zone": "Nowhere/Known"})
    office.set(rule=nowhere, next_run=office.now)
    office.set(column="other")
    office.after(minutes=10)
    assert [job.columns for job in office.jobs()] == [("other",)]
    assert office.schedule().streak == 1
    assert "no time zone 'Nowhere/Known'" in str(office.schedule().last_error)


def test_what_is_disabled_is_not_due(office: Office) -> None:
    office.set(enabled=False)
    office.after(hours=1)
    assert office.jobs() == []


def test_jobs_of_other_kinds_are_left_to_those_who_know_them(office: Office) -> None:
    office.set(job_kind="refresh_view")
    office.after(hours=1)
    assert office.jobs() == []


def test_a_change_of_a_source_is_due_once_it_has_rested(office: Office) -> None:
    office.set("on change", seen={"docs": "1"})
    office.after(minutes=1)
    assert office.jobs() == []
    office.tables.stamps["docs"] = "2"
    office.after(seconds=0)
    office.tables.stamps["docs"] = "3"
    office.after(seconds=1.9)
    assert office.jobs() == []
    office.after(seconds=0.1)
    assert (len(office.jobs()), office.schedule().next_run, office.schedule().seen) == (1, None, {"docs": "3"})


def test_what_a_refresh_published_makes_it_not_due_again(office: Office) -> None:
    office.set("on change")
    office.after(seconds=0)
    office.after(seconds=2)
    office.tables.stamps["docs"] = "published"
    office.end(result={"all": True})
    for _ in range(3):
        office.after(minutes=1)
    assert (len(office.jobs()), office.schedule().seen) == (1, {"docs": "published"})


def test_what_others_wrote_while_a_refresh_ran_is_due_when_it_has_ended(office: Office) -> None:
    office.set("on change")
    office.after(seconds=0)
    office.after(seconds=2)
    office.tables.stamps["docs"] = "written by others"
    office.after(minutes=1)
    assert (len(office.jobs()), office.schedule().skipped) == (1, 0)
    office.end(result={"all": False})
    office.after(seconds=0)
    office.after(seconds=2)
    assert len(office.jobs()) == 2


def test_a_change_that_is_no_news_makes_no_job(office: Office) -> None:
    office.set("on change")
    office.tables.news = False
    for _ in range(3):
        office.after(seconds=2)
    assert (office.jobs(), office.schedule().seen) == ([], {"docs": "1"})


def test_who_is_to_hear_of_failures_and_long_waits_is_called_once_for_each(office: Office) -> None:
    hook = hook_of("https://example.org/secret", "hook")
    office.set(on_failure=hook, on_waiting=hook, waiting_limit_seconds=60)
    office.after(seconds=0)
    (job,) = office.jobs()
    waiting_on = WaitingOn(gpu_class="a100", since=office.now, reason="no_room", message="no room")
    owner = ProcessIdentity.current()
    office.catalog.update_job(job.id, state=JobState.WAITING, waiting_on=waiting_on, owner=owner)
    office.after(seconds=59)
    assert office.hooks.facts == []
    office.after(seconds=1)
    office.after(seconds=1)
    office.catalog.update_job(job.id, state=JobState.FAILED, error=ERROR, waiting_on=None)
    office.after(seconds=1)
    told = [(facts["event"], facts["schedule"], facts["job_id"]) for facts in office.hooks.facts]
    assert told == [("waiting", "docs.vec", job.id), ("failure", "docs.vec", job.id)]
    assert office.hooks.facts[1]["error"]["message"] == "row 7"
    assert "secret" not in str(office.catalog.events(subject="schedule column docs.vec"))


def test_of_many_agents_at_once_one_wins(office: Office) -> None:
    for number in range(20):
        office.set(column=f"c{number}")
    office.now += timedelta(seconds=1)
    start = threading.Barrier(4)

    def look(scheduler: Scheduler) -> None:
        start.wait()
        scheduler.look()

    threads = [threading.Thread(target=look, args=(office.scheduler(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job.columns[0] for job in office.jobs()) == sorted(f"c{number}" for number in range(20))


def test_a_change_is_made_only_where_all_is_as_expected(office: Office) -> None:
    office.set()
    subject = column_subject("docs", "vec")
    wrong = ScheduleChange(subject, {"next_run": NOON + timedelta(seconds=1)}, {"streak": 5})
    right = ScheduleChange(subject, {"next_run": NOON, "job_id": None}, {"streak": 6})
    assert office.catalog.change_schedules([wrong]) == set()
    assert office.catalog.change_schedules([right]) == {subject}
    assert office.schedule().streak == 6


def test_a_schedule_that_is_set_again_keeps_what_is_known_of_its_runs(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    office.set("every 1 hour")
    assert (office.schedule().job_id, office.schedule().rule) == (office.jobs()[0].id, read("every 1 hour"))


def test_schedules_follow_their_columns_names_and_go_with_their_tables(office: Office) -> None:
    office.set()
    office.set(column="other")
    office.catalog.rename_scheduled_column("docs", "vec", "vector")
    assert office.schedule("vector").columns == ("vector",)
    with pytest.raises(ScheduleNotFound, match=r"no schedule of column docs\.vec"):
        office.schedule("vec")
    assert office.catalog.drop_schedules_of_table("docs") == ["column docs.other", "column docs.vector"]
    assert [event.kind for event in office.catalog.events(subject="schedules")] == [
        "set",
        "set",
        "renamed",
        "dropped",
        "dropped",
    ]


def test_a_schedule_that_is_set_again_is_due_anew_and_its_failures_are_forgotten(office: Office) -> None:
    office.set()
    office.after(seconds=0)
    office.end(JobState.FAILED, error=ERROR)
    office.after(seconds=1)
    assert office.schedule().streak == 1
    office.set("every 1 hour")
    assert (office.schedule().streak, office.schedule().next_run) == (0, office.now)
