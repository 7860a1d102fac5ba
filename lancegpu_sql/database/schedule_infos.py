"""How the schedules of a database stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lancegpu_sql.catalog.models import utc_now
from lancegpu_sql.catalog.schedule_models import ScheduledJob, ScheduleRecord
from lancegpu_sql.database.schedules import SCHEDULED
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import ScheduleNotFound
from lancegpu_sql.jobs.claims import serving
from lancegpu_sql.jobs.schedules import rule as rules
from lancegpu_sql.jobs.schedules.hooks import hook_told
from lancegpu_sql.jobs.schedules.status import ScheduleState, status_of


@dataclass(frozen=True)
class ScheduleInfo:
    """One schedule, as it stands.

    Attributes
    ----------
    schedule, kind
        What it is about: ``docs.vec`` and ``column``.
    rule
        When it is due, e.g. ``every 10 minutes``.
    state, reason
        ``up_to_date``, ``waiting_interval``, ``queued``, ``waiting``, ``running``, ``backing_off``, ``blocked`` or
        ``disabled``; and for what it waits, or what is wrong.
    last_run, next_run
        When its last refresh was queued, and when the next one is due; None where that is not known.
    job_id
        Of its last refresh.
    mode, rows
        What its last refresh that ended well did: `RefreshResult`'s mode, and how many rows it computed.
    streak, error
        How many refreshes failed in a row up to now, and why the last one did.
    skipped
        How many due times passed so far while the present job ran or waited.
    on_failure, on_waiting, waiting_limit_seconds
        Who is called; of a URL only the host is shown.
    """

    schedule: str
    kind: str
    table: str
    columns: tuple[str, ...]
    rule: str
    enabled: bool
    state: ScheduleState
    reason: str | None
    last_run: datetime | None
    next_run: datetime | None
    job_id: str | None
    mode: str | None
    rows: int | None
    streak: int
    error: str | None
    skipped: int
    on_failure: str | None
    on_waiting: str | None
    waiting_limit_seconds: float | None


def subject_named(services: Services, name: str) -> str:
    """Return the subject that people call so: ``docs.vec``, or ``column docs.vec``.

    Raises
    ------
    ScheduleNotFound
    """
    known = [held.schedule for held in services.catalog.schedules()]
    found = next((one.subject for one in known if name in (one.subject, one.title)), None)
    if found is None:
        there_are = ", ".join(one.title for one in known[:10]) or "none"
        raise ScheduleNotFound(f"There is no schedule of {name}; there are: {there_are}.", subject=name)
    return found


def schedule_infos(services: Services, table: str | None = None) -> list[ScheduleInfo]:
    """Return how each schedule stands, by subject."""
    now = utc_now()
    served = {kind: bool(serving(services.catalog, kind)) for kind in SCHEDULED}
    stamps: dict[str, str] = {}

    def has_news(schedule: ScheduleRecord) -> bool:
        for source in schedule.sources:
            if source not in stamps:
                stamps[source] = services.tables.stamp(source) or ""
        # A stamp taken within moments of a commit ends with a mark; to people it is the same.
        return any(stamps[one].rstrip("?") != schedule.seen.get(one, "").rstrip("?") for one in schedule.sources)

    return [
        _info(held, now, has_news=has_news(held.schedule), served=served.get(held.schedule.job_kind, False))
        for held in services.catalog.schedules(table=table)
    ]


def _info(held: ScheduledJob, now: datetime, *, has_news: bool, served: bool) -> ScheduleInfo:
    schedule = held.schedule
    status = status_of(held, now, has_news=has_news, served=served)
    result, error = schedule.last_result or {}, schedule.last_error or {}
    return ScheduleInfo(
        schedule=schedule.title,
        kind=schedule.kind,
        table=schedule.table,
        columns=schedule.columns,
        rule=rules.told(schedule.rule),
        enabled=schedule.enabled,
        state=status.state,
        reason=status.reason,
        last_run=schedule.last_run,
        next_run=schedule.next_run if schedule.enabled else None,
        job_id=schedule.last_job_id,
        mode=result.get("mode"),
        rows=result.get("rows_assigned"),
        streak=schedule.streak,
        error=error.get("message"),
        skipped=schedule.skipped,
        on_failure=None if schedule.on_failure is None else hook_told(schedule.on_failure),
        on_waiting=None if schedule.on_waiting is None else hook_told(schedule.on_waiting),
        waiting_limit_seconds=schedule.waiting_limit_seconds,
    )
