"""A database's schedules: set, dropped, switched on and off, and what the scheduler asks of the tables they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lancegpu_sql.catalog.models import EventDraft, utc_now
from lancegpu_sql.catalog.schedule_models import (
    Hook,
    ScheduleRecord,
    ScheduleRule,
    column_subject,
    view_subject,
)
from lancegpu_sql.database import arguments
from lancegpu_sql.database.columns import check_refresh
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.jobs.schedules import rule as rules
from lancegpu_sql.jobs.schedules.hooks import hook_of
from lancegpu_sql.refresh.current import unproven
from lancegpu_sql.refresh.request import REFRESH_COLUMN, RefreshOptions
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.refresh.views.model import View, open_view
from lancegpu_sql.refresh.views.request import REFRESH_VIEW, ViewOptions
from lancegpu_sql.tables.snapshot import Snapshot

When = str | ScheduleRule
Waits = tuple[float, "str | list[str] | tuple[str, ...] | Hook"]
"""How many seconds a refresh may wait, and whom to call then."""


@dataclass(frozen=True)
class Scheduled:
    """What the scheduler has to know of a kind of job.

    Attributes
    ----------
    has_news
        Whether such a job would find something to do, by what is known without reading rows.
    source_versions
        The versions of the sources that a job with this result covers.
    """

    has_news: Callable[[Services, ScheduleRecord], bool]
    source_versions: Callable[[ScheduleRecord, Mapping[str, Any]], Mapping[str, int]]


def _column_has_news(services: Services, schedule: ScheduleRecord) -> bool:
    snapshot = services.tables.open(schedule.table)
    return bool(unproven(snapshot, find_target(snapshot, schedule.columns[0]), services.catalog))


def _view_has_news(services: Services, schedule: ScheduleRecord) -> bool:
    # DuckDB is loaded by the first look at a view.
    from lancegpu_sql.refresh.views.plan import has_news

    return has_news(services.tables, open_view(services.tables, schedule.table), services.catalog.functions())


SCHEDULED: Mapping[str, Scheduled] = {
    REFRESH_COLUMN: Scheduled(
        has_news=_column_has_news,
        source_versions=lambda schedule, result: {schedule.table: int(result["version"])},
    ),
    REFRESH_VIEW: Scheduled(
        has_news=_view_has_news,
        source_versions=lambda _schedule, result: dict(result["source_versions"]),
    ),
}
"""What can be scheduled, by kind of job."""


class TableSources:
    """Answers the scheduler's questions about tables."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def stamp(self, table: str) -> str | None:
        """Return what is another text after each commit to a table."""
        return self._services.tables.stamp(table)

    def has_news(self, schedule: ScheduleRecord) -> bool:
        """Tell whether a refresh would find something to do."""
        return SCHEDULED[schedule.job_kind].has_news(self._services, schedule)

    def seen_after(self, schedule: ScheduleRecord, result: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the stamps of the sources where a refresh covered their latest versions; None where it did not."""
        versions = SCHEDULED[schedule.job_kind].source_versions(schedule, result)
        # Each stamp before its version is looked at: a commit in between then shows in a later stamp.
        seen = {table: self.stamp(table) or "" for table in schedule.sources}
        latest = {table: self._services.tables.open(table).version for table in schedule.sources}
        return seen if all(versions.get(table) == version for table, version in latest.items()) else None


def schedule_column(
    services: Services,
    snapshot: Snapshot,
    column: str,
    when: When,
    *,
    on_failure: object = None,
    on_waiting_longer_than: object = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Let a computed column be refreshed by a schedule; it takes the place of the one that the column may have."""
    checked = RefreshOptions.of(**(options or {}))
    if checked.where is not None:
        raise InvalidInput("a schedule refreshes whatever is not current: leave where= out", option="where")
    target = find_target(snapshot, column)
    check_refresh(services, snapshot, target, checked)
    request = checked.model_dump(mode="json", exclude_defaults=True)
    put_schedule(
        services,
        ScheduleRecord(
            subject=column_subject(snapshot.name, column),
            job_kind=REFRESH_COLUMN,
            table=snapshot.name,
            columns=target.names,
            request=request,
            sources=(snapshot.name,),
            rule=rule_of(when),
            created_at=utc_now(),
        ),
        on_failure=on_failure,
        on_waiting_longer_than=on_waiting_longer_than,
    )


def schedule_view(
    services: Services,
    view: View,
    when: When,
    *,
    on_failure: object = None,
    on_waiting_longer_than: object = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Let a view be refreshed by a schedule; it takes the place of the one that the view may have."""
    checked, rule = ViewOptions.of(**(options or {})), rule_of(when)
    if rule == rules.on_change() and not view.definition.reads:
        raise InvalidInput(
            f"view {view.name!r} reads no table of this database that could change: write 'every …' or 'cron …'"
        )
    put_schedule(
        services,
        ScheduleRecord(
            subject=view_subject(view.name),
            job_kind=REFRESH_VIEW,
            table=view.name,
            request=checked.model_dump(mode="json", exclude_defaults=True),
            sources=tuple(view.definition.reads),
            rule=rule,
            created_at=utc_now(),
        ),
        on_failure=on_failure,
        on_waiting_longer_than=on_waiting_longer_than,
    )


def put_schedule(
    services: Services, record: ScheduleRecord, *, on_failure: object = None, on_waiting_longer_than: object = None
) -> None:
    """Keep a schedule, with whom it calls, due for the first time when its rule says."""
    limit_seconds, on_waiting = _waits(on_waiting_longer_than)
    placed = record.model_copy(
        update={
            "next_run": rules.first_run(record.rule, record.subject, record.created_at),
            "on_failure": hook_of(on_failure, "on_failure"),
            "on_waiting": on_waiting,
            "waiting_limit_seconds": limit_seconds,
        }
    )
    told = EventDraft(kind="set", message=f"The schedule of {record.title} is: {rules.told(record.rule)}.")
    services.catalog.put_schedule(placed, told)


def drop_schedule(services: Services, subject: str) -> None:
    """Forget the schedule of a subject.

    Raises
    ------
    ScheduleNotFound
    """
    services.catalog.schedule(subject)
    services.catalog.drop_schedules([subject], "it was dropped")


def switch_schedule(services: Services, subject: str, *, enabled: bool) -> None:
    """Switch a schedule on or off; one that is switched on is due as if it were set now, and its failures are forgotten.

    Raises
    ------
    ScheduleNotFound
    """
    schedule = services.catalog.schedule(subject).schedule
    if schedule.enabled == enabled:
        return
    told = f"The schedule of {schedule.title} was {'enabled' if enabled else 'disabled'}."
    values: dict[str, Any] = {"enabled": enabled, "next_run": None}
    if enabled:
        now = utc_now()
        first = rules.first_run(schedule.rule, subject, now)
        values |= {"created_at": now, "next_run": first, "streak": 0, "last_error": None, "seen": {}}
    event = EventDraft(kind="enabled" if enabled else "disabled", message=told)
    services.catalog.alter_schedule(subject, event, **values)


def set_auto_refresh(
    services: Services, snapshot: Snapshot, column: str, enabled: bool | None, interval_seconds: float | None
) -> None:
    """Set a column's schedule in LanceDB's words: `auto_refresh_enabled` and `auto_refresh_interval_seconds`."""
    subject = column_subject(snapshot.name, column)
    put = partial(schedule_column, services, snapshot, column)
    _set_auto_refresh(services, subject, put, enabled, interval_seconds)


def set_view_auto_refresh(services: Services, view: View, enabled: bool | None, interval_seconds: float | None) -> None:
    """Set a view's schedule in LanceDB's words."""
    _set_auto_refresh(
        services, view_subject(view.name), partial(schedule_view, services, view), enabled, interval_seconds
    )


def _set_auto_refresh(
    services: Services,
    subject: str,
    put: Callable[[When], None],
    enabled: bool | None,
    interval_seconds: float | None,
) -> None:
    if enabled is not None and not isinstance(enabled, bool):
        raise InvalidInput("auto_refresh_enabled is True or False")
    arguments.seconds(interval_seconds, "auto_refresh_interval_seconds")
    known = bool(services.catalog.schedules([subject]))
    if interval_seconds is not None:
        put(rules.every(f"{interval_seconds:f} seconds"))
    elif enabled and not known:
        put(rules.on_change())
    if enabled is not None and (enabled or known or interval_seconds is not None):
        switch_schedule(services, subject, enabled=enabled)


def rule_of(when: When) -> ScheduleRule:
    """Return the rule that a caller wrote."""
    return when if isinstance(when, ScheduleRule) else rules.read(arguments.text(when, "a schedule"))


def _waits(given: object) -> tuple[float | None, Hook | None]:
    if given is None:
        return None, None
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise InvalidInput("on_waiting_longer_than takes (seconds, hook), such as (600, 'https://example.org/told')")
    seconds, hook = given
    if seconds is None:
        raise InvalidInput("on_waiting_longer_than takes a number of seconds and a hook")
    return float(arguments.seconds(seconds, "on_waiting_longer_than")), hook_of(hook, "on_waiting_longer_than")
