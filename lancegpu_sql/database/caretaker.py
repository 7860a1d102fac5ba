"""An agent looks after tables by itself: it looks at them now and then, and queues jobs for those that need it."""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime
from types import TracebackType
from typing import Self

from lancegpu_sql.catalog.models import UNENDED, EventDraft, JobRecord, utc_now
from lancegpu_sql.database.maintenance import known_views
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import AlreadyExists, LanceGpuError
from lancegpu_sql.maintenance.automatic import is_due, job_id_for, look_again_at
from lancegpu_sql.maintenance.left_over import environments_of, look_for_left_over, plan_left_over
from lancegpu_sql.maintenance.looking import KnownViews, look_at_table
from lancegpu_sql.maintenance.optimizing import wanted_of
from lancegpu_sql.maintenance.plan import plan_table
from lancegpu_sql.maintenance.request import OPTIMIZE, REMOVE_LEFT_OVER, OptimizeOptions

_LONGEST_REST_SECONDS = 1.0
_LEAVE_SECONDS = 10.0

_DONE = frozenset({"compact", "remove versions", "remove files", "remove checkpoints"})

_log = logging.getLogger("lancegpu_sql.maintenance")


class Caretaker:
    """Looks at all tables now and then, and queues a job for those that need it; a context manager.

    Any number of agents may do so: jobs of one interval have the same ids, whoever makes them. The look is taken in a thread
    of its own, which rests as long as it works.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._interval_seconds = services.settings.maintenance_interval_seconds
        self._seen: dict[str, tuple[str | None, datetime]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lancegpu maintenance", daemon=True)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Begin to look, unless the settings say that agents do not."""
        if self._services.settings.maintenance:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_SECONDS)

    def look(self) -> list[str]:
        """Queue jobs for the tables that need one; return their ids."""
        queued = []
        # As of now for all tables: the job looks again before it does anything.
        views = known_views(self._services)
        for name in self._services.tables.names():
            began = time.monotonic()
            try:
                queued += self._look_at(name, views)
            except LanceGpuError as problem:
                _log.warning("Table %s could not be looked after: %s", name, problem)
            if self._stop.wait(min(time.monotonic() - began, _LONGEST_REST_SECONDS)):
                return queued
        return queued + self._look_for_left_over()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception as problem:  # jobs that people asked for go on, whatever is wrong here
                _log.warning("The tables could not be looked after: %s", problem)
            if self._stop.wait(self._interval_seconds):
                return

    def _look_at(self, name: str, views: KnownViews) -> list[str]:
        services, now = self._services, utc_now()
        stamp = services.tables.stamp(name)
        seen = self._seen.get(name)
        if seen is not None and seen[0] == stamp and now < seen[1]:
            return []
        settings = services.settings
        options = OptimizeOptions.of(
            automatic=True, cleanup_older_than_seconds=settings.maintenance_keep_versions_seconds
        )
        facts = look_at_table(services.tables, services.catalog, services.folder, lambda: views, name)
        plan = plan_table(facts, wanted_of(settings, options), now)
        if not is_due(plan, facts.versions, options.cleanup_older_than_seconds, now):
            self._seen[name] = (stamp, look_again_at(plan, now))
            return []
        self._seen.pop(name, None)
        told = "; ".join(f"{step.action} {step.what}" for step in plan.told if step.action in _DONE)
        request = options.model_dump(mode="json", exclude_defaults=True)
        return self._queue(OPTIMIZE, name, request, f"It is time to look after the table: {told}.")

    def _look_for_left_over(self) -> list[str]:
        services = self._services
        environments = environments_of(services.settings)
        found = look_for_left_over(services.tables, services.catalog, services.folder, environments)
        plan = plan_left_over(found, wanted_of(services.settings, OptimizeOptions.of()), utc_now())
        if plan.nothing:
            return []
        return self._queue(REMOVE_LEFT_OVER, None, {}, "There is something left over in the database's folders.")

    def _queue(self, kind: str, table: str | None, request: dict[str, object], told: str) -> list[str]:
        catalog = self._services.catalog
        if any(job.kind == kind for job in catalog.jobs(table=table, states=UNENDED)):
            return []
        job_id = job_id_for(kind, table or "", self._interval_seconds, utc_now())
        record = JobRecord.new(kind, table=table, request=request).model_copy(update={"id": job_id})
        try:
            catalog.add_job(record, [EventDraft(kind="queued", message=told)])
        except AlreadyExists:
            return []  # another agent was first
        return [job_id]
