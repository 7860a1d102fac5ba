"""Work of a database as jobs: started, shown while it runs, resumed."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lancegpu_sql.catalog.models import EventDraft, FunctionVersion, JobRecord, JobState
from lancegpu_sql.database import maintenance
from lancegpu_sql.database.columns import check_refresh
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import Conflict
from lancegpu_sql.functions.registry import CREATE_FUNCTION
from lancegpu_sql.jobs import housekeeping
from lancegpu_sql.jobs.claims import serving
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.display import watch
from lancegpu_sql.jobs.following import FollowedJob
from lancegpu_sql.jobs.housekeeping import settle_dead
from lancegpu_sql.jobs.job import ENDS_WITH_PROCESS
from lancegpu_sql.jobs.runner import Work
from lancegpu_sql.jobs.running import RunningJob
from lancegpu_sql.maintenance.request import OPTIMIZE, REMOVE_LEFT_OVER, LeftOverResult, OptimizeOptions, OptimizeResult
from lancegpu_sql.refresh.column import refresh_column
from lancegpu_sql.refresh.request import REFRESH_COLUMN, RefreshOptions, RefreshResult
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.refresh.views.model import open_view
from lancegpu_sql.refresh.views.request import REFRESH_VIEW, ViewOptions

_CANCEL_SECONDS = 30.0

Result = TypeVar("Result")

_log = logging.getLogger("lancegpu_sql.jobs")


def refresh_job(services: Services, table: str, columns: tuple[str, ...], options: RefreshOptions) -> JobHandle[Any]:
    """Start a refresh in this process; one like it whose process died is gone on with instead."""
    return _start_or_go_on(services, _refresh_record(table, columns, options))


def submit_refresh(services: Services, table: str, columns: tuple[str, ...], options: RefreshOptions) -> JobHandle[Any]:
    """Leave a refresh to the agents of the database; where one like it is queued already, that one stands for both."""
    return _left_to_agents(services, _refresh_record(table, columns, options))


def view_job(services: Services, view: str, options: ViewOptions) -> JobHandle[Any]:
    """Start a view's refresh in this process; one like it whose process died is gone on with instead."""
    return _start_or_go_on(services, _view_record(view, options))


def submit_view(services: Services, view: str, options: ViewOptions) -> JobHandle[Any]:
    """Leave a view's refresh to the agents of the database; see `submit_refresh`."""
    return _left_to_agents(services, _view_record(view, options))


def optimize_job(services: Services, table: str, options: OptimizeOptions) -> JobHandle[OptimizeResult]:
    """Start a table's upkeep in this process."""
    return _start_or_go_on(services, optimize_record(table, options))


def submit_optimize(services: Services, table: str, options: OptimizeOptions) -> JobHandle[OptimizeResult]:
    """Leave a table's upkeep to the agents of the database; see `submit_refresh`."""
    return _left_to_agents(services, optimize_record(table, options))


def left_over_job(services: Services) -> JobHandle[LeftOverResult]:
    """Start to remove what is left over in the database's folders."""
    return _start_or_go_on(services, JobRecord.new(REMOVE_LEFT_OVER))


def _start_or_go_on(services: Services, record: JobRecord) -> JobHandle[Any]:
    for left in _queued_like(services, record):
        try:
            return _start(services, left)
        except Conflict:
            continue  # another process took it
    return _start(services, record)


def _left_to_agents(services: Services, record: JobRecord) -> JobHandle[Any]:
    services.check_writable()
    left = _queued_like(services, record)
    if left:
        record = left[0]
    else:
        services.catalog.add_job(record, [EventDraft(kind="queued", message="It was left to the database's agents.")])
    _say_where_unserved(services, record)
    return followed(services, record.id)


def requeue(services: Services, job_id: str) -> JobHandle[Any]:
    """Let a job go on, in an agent."""
    record = services.catalog.find_job(job_id)
    _resumable(services, record)
    _say_where_unserved(services, housekeeping.requeue(services.catalog, record.id))
    return followed(services, record.id)


def function_job(services: Services, name: str, work: Callable[[], FunctionVersion]) -> JobHandle[FunctionVersion]:
    """Start the registration of a Function in this process."""
    record = JobRecord.new(CREATE_FUNCTION, request={"function": name})
    job = services.runner.start(record, lambda _context: work().model_dump(mode="json"))
    return _handle(services, job, FunctionVersion.model_validate)


def followed(services: Services, job_id: str) -> JobHandle[Any]:
    """Return a handle to any job of the database."""
    record = services.catalog.find_job(job_id)
    job = services.runner.find(record.id) or FollowedJob(services.catalog, record.id)
    return _handle(services, job, _reader(record.kind))


def resume(services: Services, job_id: str) -> JobHandle[Any]:
    """Run a job here that no process runs."""
    record = services.catalog.find_job(job_id)
    _resumable(services, record)
    return _start(services, record)


def show(services: Services, handle: JobHandle[Result]) -> Result:
    """Wait for a job of this process, showing its progress; Ctrl-C cancels it and says how to go on."""
    try:
        watch(handle, style=services.settings.progress)
        return handle.wait()
    except KeyboardInterrupt:
        handle.cancel()
        handle.ended(_CANCEL_SECONDS)
        # The last line that Python prints of an error is its text: there the advice is found.
        raise KeyboardInterrupt(
            f"Cancelled; what was finished is kept. Go on with db.resume_job({handle.id!r}), or in a shell: "
            f"{resume_command(services.tables.uri, handle.id)}"
        ) from None


def resume_command(uri: str, job_id: str) -> str:
    """Return the command line that goes on with a job, from whatever folder."""
    return shlex.join(["lancegpu", "--db", uri, "jobs", "resume", job_id])


def _start(services: Services, record: JobRecord) -> JobHandle[Any]:
    services.check_writable()
    job = services.runner.start(record, WORKS[record.kind](services, record))
    return _handle(services, job, _reader(record.kind))


def _refresh_work(services: Services, record: JobRecord) -> Work:
    options = RefreshOptions.of(**record.request)

    def work(context: JobContext) -> dict[str, Any]:
        result = refresh_column(services.refresh_resources(), str(record.table), record.columns[0], options, context)
        return result.model_dump(mode="json")

    return work


def _view_work(services: Services, record: JobRecord) -> Work:
    options = ViewOptions.of(**record.request)

    def work(context: JobContext) -> dict[str, Any]:
        # DuckDB is loaded by the first refresh of a view.
        from lancegpu_sql.refresh.views.refreshing import refresh_view

        result = refresh_view(services.refresh_resources(), str(record.table), options, context)
        return result.model_dump(mode="json")

    return work


def _optimize_work(services: Services, record: JobRecord) -> Work:
    options = OptimizeOptions.of(**record.request)

    def work(context: JobContext) -> dict[str, Any]:
        return maintenance.optimized(services, str(record.table), options, context).model_dump(mode="json")

    return work


def _left_over_work(services: Services, record: JobRecord) -> Work:  # noqa: ARG001  # as of the others
    def work(_context: JobContext) -> dict[str, Any]:
        return maintenance.left_over(services, dry_run=False).model_dump(mode="json")

    return work


WORKS: Mapping[str, Callable[[Services, JobRecord], Work]] = {
    REFRESH_COLUMN: _refresh_work,
    REFRESH_VIEW: _view_work,
    OPTIMIZE: _optimize_work,
    REMOVE_LEFT_OVER: _left_over_work,
}
"""What an agent can run, by kind of job: all that lives in the database alone."""


def _view_record(view: str, options: ViewOptions) -> JobRecord:
    return JobRecord.new(REFRESH_VIEW, table=view, request=options.model_dump(mode="json", exclude_defaults=True))


def optimize_record(table: str, options: OptimizeOptions) -> JobRecord:
    """Return a new job that looks after a table."""
    return JobRecord.new(OPTIMIZE, table=table, request=options.model_dump(mode="json", exclude_defaults=True))


def _refresh_record(table: str, columns: tuple[str, ...], options: RefreshOptions) -> JobRecord:
    request = options.model_dump(mode="json", exclude_defaults=True)
    return JobRecord.new(REFRESH_COLUMN, table=table, columns=columns, request=request)


def _queued_like(services: Services, wanted: JobRecord) -> list[JobRecord]:
    """Return the queued jobs that do the same, oldest first; those of dead processes are among them."""
    settle_dead(services.catalog)
    queued = reversed(services.catalog.jobs(table=wanted.table, states=[JobState.QUEUED]))
    same = (wanted.kind, wanted.columns, wanted.request)
    return [job for job in queued if (job.kind, job.columns, job.request) == same and job.owner is None]


def _resumable(services: Services, record: JobRecord) -> None:
    """Refuse to go on with what is no refresh, or could not run."""
    if record.kind in ENDS_WITH_PROCESS:
        raise Conflict(
            f"Job {record.id} was a query, whose result went with whoever read it: run it again.", job_id=record.id
        )
    if record.kind == REFRESH_VIEW and record.table is not None:
        open_view(services.tables, record.table)
        return
    if record.kind == REMOVE_LEFT_OVER:
        return
    if record.kind == OPTIMIZE and record.table is not None:
        services.tables.open(record.table)
        return
    if record.kind != REFRESH_COLUMN or record.table is None:
        raise Conflict(
            f"Job {record.id} registered a Function, which lived in the process that started it: register it again there.",
            job_id=record.id,
        )
    options = RefreshOptions.of(**record.request)
    latest = services.tables.open(record.table)
    check_refresh(services, latest, find_target(latest, record.columns[0]), options)


def _say_where_unserved(services: Services, record: JobRecord) -> None:
    if serving(services.catalog, record.kind):
        return
    told = (
        f"No agent serves this database: job {record.id} stays queued until one does. Start one with: "
        f"{shlex.join(['lancegpu', '--db', services.tables.uri, 'agent'])}"
    )
    services.catalog.update_job(record.id, events=[EventDraft(kind="unserved", message=told)])
    _log.warning("%s", told)


def _handle(
    services: Services, job: RunningJob | FollowedJob, read_result: Callable[[dict[str, Any]], Result]
) -> JobHandle[Result]:
    return JobHandle(job, services.catalog, services.folder, read_result, services.settings.job_errors_kept)


def _reader(kind: str) -> Callable[[dict[str, Any]], Any]:
    return {
        REFRESH_COLUMN: RefreshResult.model_validate,
        REFRESH_VIEW: RefreshResult.model_validate,
        OPTIMIZE: OptimizeResult.model_validate,
        REMOVE_LEFT_OVER: LeftOverResult.model_validate,
        CREATE_FUNCTION: FunctionVersion.model_validate,
    }.get(kind, lambda result: result)
