"""Serves a database: an agent, and pages for those who watch it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import nullcontext

from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.database.caretaker import Caretaker
from lancegpu_sql.database.jobs import WORKS
from lancegpu_sql.database.schedules import SCHEDULED, TableSources
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.jobs.agent import Agent
from lancegpu_sql.jobs.endpoint import Endpoint
from lancegpu_sql.jobs.housekeeping import prune
from lancegpu_sql.jobs.metrics import CONTENT_TYPE
from lancegpu_sql.jobs.schedules.hooks import HookCaller
from lancegpu_sql.jobs.schedules.scheduler import Scheduler
from lancegpu_sql.refresh.target import find_target


def run_agent(
    services: Services,
    *,
    host: str,
    port: int | None,
    concurrency: int | None,
    stop: threading.Event,
    serving: Callable[[str | None], None],
) -> None:
    """Run queued jobs, and those that schedules make due, until `stop` is set; `serving` is called once it does, with the address of its pages."""
    services.check_writable()
    settings = services.settings
    agent = Agent(
        services.catalog,
        services.runner,
        {kind: functools.partial(make, services) for kind, make in WORKS.items()},
        concurrency=concurrency or settings.agent_concurrency,
        lease_seconds=settings.lease_seconds,
        most_waiting=settings.agent_waiting_jobs,
        scheduler=Scheduler(
            services.catalog,
            TableSources(services),
            job_kinds=[kind for kind in WORKS if kind in SCHEDULED],
            hooks=HookCaller(settings.hook_timeout_seconds, commands=settings.hook_commands),
            debounce_seconds=settings.on_change_debounce_seconds,
            facts={"database": services.tables.uri},
        ),
        function_of=lambda record: _function_of(services, record),
        upkeep=lambda: prune(services.catalog, services.folder, settings.job_retention_days),
    )
    pages = {"/metrics": lambda: (200, CONTENT_TYPE, agent.metrics()), "/healthz": lambda: _health(agent)}
    with Caretaker(services) as caretaker, nullcontext() if port is None else Endpoint(host, port, pages) as endpoint:
        url = None if endpoint is None else endpoint.url

        def begun() -> None:
            serving(url)
            caretaker.begin()

        agent.run(stop, shutdown_grace_seconds=settings.shutdown_grace_seconds, serving=begun)


def _health(agent: Agent) -> tuple[int, str, str]:
    problem = agent.problem()
    return (200, "text/plain", "ok\n") if problem is None else (503, "text/plain", f"{problem}\n")


def _function_of(services: Services, record: JobRecord) -> str:
    try:
        return find_target(services.tables.open(str(record.table)), record.columns[0]).declaration.function
    except (LanceGpuError, IndexError):
        return ""  # the job itself says what is wrong
