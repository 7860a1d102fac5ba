"""What the scheduler itself takes of each look of an agent, with 10,000 schedules in one catalog.

Tables are folders with nothing but a `_versions`, and no refresh is run: a job that is queued here is ended by the program, so
that nothing but the scheduler's own work is timed. That is the time of this process's CPU: what other programs take does not
count. Half of the schedules have an interval or a cron expression, half are due on changes, each of another table.

Run with `make bench`, or `python benchmarks/scheduler.py [--schedules 10000] [--looks 100]`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.catalog.schedule_models import ScheduleRecord, column_subject
from lancegpu_sql.catalog.schedules_store import columns_of
from lancegpu_sql.catalog.schema import jobs, schedules
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.jobs.schedules.hooks import HookCaller
from lancegpu_sql.jobs.schedules.rule import first_run, read
from lancegpu_sql.jobs.schedules.scheduler import Scheduler
from lancegpu_sql.tables.store import TableStore

KIND = "refresh_column"
RULES = ("every 1 hour", "on change", "cron 0 * * * * Europe/Paris jitter 10 minutes", "on change")
BAR_MILLISECONDS = 50.0


class Folders:
    """The tables, as the scheduler asks about them."""

    def __init__(self, folder: Path) -> None:
        self._store = TableStore(folder)
        self.stamp = self._store.stamp

    def has_news(self, _schedule: ScheduleRecord) -> bool:
        """A change is always news here."""
        return True

    def seen_after(self, schedule: ScheduleRecord, _result: Mapping[str, Any]) -> dict[str, str] | None:
        """A refresh here changes no table."""
        return {table: self.stamp(table) or "" for table in schedule.sources}


class Bench:
    """A catalog full of schedules, and one scheduler with a clock of its own."""

    def __init__(self, folder: Path, catalog: Catalog, count: int) -> None:
        self.folder, self.catalog, self.count = folder, catalog, count
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.sources = Folders(folder)
        self.scheduler = Scheduler(
            catalog,
            self.sources,
            job_kinds=[KIND],
            hooks=HookCaller(1.0, commands=False),
            debounce_seconds=2.0,
            now=lambda: self.now,
        )

    def fill(self) -> None:
        """Set the schedules; those that are due on changes have seen their tables as they are."""
        rows = []
        for number in range(self.count):
            table = f"t{number}"
            versions = self.folder / f"{table}.lance" / "_versions"
            versions.mkdir(parents=True)
            os.utime(versions, (1.0, 1.0))
            subject, rule = column_subject(table, "c"), read(RULES[number % len(RULES)])
            record = ScheduleRecord(
                subject=subject,
                job_kind=KIND,
                table=table,
                columns=("c",),
                sources=(table,),
                rule=rule,
                created_at=self.now,
                next_run=first_run(rule, subject, self.now),
                seen={table: self.sources.stamp(table) or ""},
                waiting_limit_seconds=600.0,
            )
            rows.append(columns_of(record))
        # All at once, as no user does.
        with self.catalog._connection.writing() as connection:
            connection.execute(schedules.insert(), rows)

    def looks(self, count: int, *, step: timedelta = timedelta(seconds=0.5)) -> list[float]:
        """Let the scheduler look so many times; return the milliseconds of each."""
        spent = []
        for _ in range(count):
            self.now += step
            began = time.process_time()
            self.scheduler.look()
            spent.append((time.process_time() - began) * 1000)
        return spent

    def until_done(self) -> list[float]:
        """Let it look at one moment until nothing more is due; return the milliseconds of each."""
        spent, more = [], True
        while more:
            began = time.process_time()
            more = self.scheduler.look()
            spent.append((time.process_time() - began) * 1000)
        return spent

    def change(self, tables: range) -> None:
        """Let tables look as if something had been committed."""
        for number in tables:
            os.utime(self.folder / f"t{number}.lance" / "_versions", (2.0, time.time()))

    def put_jobs(self, state: JobState) -> None:
        """Let every job that has not ended be in a state."""
        with self.catalog._connection.writing() as connection:
            ended = {"finished_at": self.now, "result": {"version": 1}} if state.ended else {}
            left = jobs.c.state.in_([str(JobState.QUEUED), str(JobState.WAITING)])
            connection.execute(sa.update(jobs).where(left).values(state=str(state), **ended))


def told(name: str, spent: list[float], about: str = "") -> bool:
    """Print one line; return whether all looks kept to the bar."""
    ordered = sorted(spent)
    most = ordered[-1]
    high = ordered[int(len(ordered) * 0.99)] if len(ordered) > 1 else most
    print(
        f"  {name:<44} {len(spent):>5} looks: median {statistics.median(spent):6.1f} ms, 99 % {high:6.1f} ms, most "
        f"{most:6.1f} ms {about}"
    )
    return high <= BAR_MILLISECONDS


def measure(bench: Bench, looks: int) -> bool:
    """Time each situation; return whether all kept to the bar."""
    timed: list[tuple[str, Callable[[], list[float]]]] = [
        ("all that have an interval are due at once", bench.until_done),
        ("none is due", lambda: bench.looks(looks)),
    ]
    kept = [told(name, run()) for name, run in timed]
    bench.put_jobs(JobState.WAITING)
    kept.append(told("a fourth of them waits for a GPU class", bench.looks(looks)))
    bench.put_jobs(JobState.FINISHED)
    kept.append(told("those have ended", bench.until_done()))
    bench.change(range(1, bench.count, 2 * len(RULES)))
    kept.append(told("an eighth of the tables was written to", bench.looks(looks)))
    bench.put_jobs(JobState.FINISHED)
    bench.until_done()
    bench.now += timedelta(hours=1)
    kept.append(told("half of them are due after an hour", bench.until_done()))
    return all(kept)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lancegpu-bench-") as name:
        folder = Path(name)
        with Catalog.open(folder / ".lancegpu" / "catalog.sqlite") as catalog:
            bench = Bench(folder, catalog, asked.schedules)
            bench.fill()
            print(f"{asked.schedules:,} schedules; bar: 99 % of looks ≤ {BAR_MILLISECONDS:.0f} ms")
            kept = measure(bench, asked.looks)
    print("the bar is kept" if kept else "the bar is NOT kept")


if __name__ == "__main__":
    main()
