"""A database, as a user holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lancegpu_sql.catalog.models import AgentRecord, EventRecord, FunctionVersion, JobRecord, JobState
from lancegpu_sql.database import arguments, functions, gpu_classes, maintenance, schedules, tables, views
from lancegpu_sql.database.expected import ExpectedWorkers
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.jobs import followed, function_job, left_over_job, requeue, resume, show
from lancegpu_sql.database.schedule_infos import ScheduleInfo, schedule_infos, subject_named
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.table import Table
from lancegpu_sql.database.view import MaterializedView
from lancegpu_sql.database.view_needs import list_views
from lancegpu_sql.database.view_status import ViewStatus, status_of
from lancegpu_sql.errors import TableNotFound
from lancegpu_sql.functions import registry
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.registry import RegisteredFunction
from lancegpu_sql.jobs.claims import serving
from lancegpu_sql.jobs.housekeeping import settle_dead
from lancegpu_sql.jobs.job import ENDS_WITH_PROCESS
from lancegpu_sql.maintenance.request import LeftOverResult
from lancegpu_sql.refresh.views.model import open_view
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables.naming import is_table_name, told_missing
from lancegpu_sql.tables.places import CreateMode
from lancegpu_sql.tables.sources import reader_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lancegpu_sql.placement.kubernetes.checking import ClassCheck
    from lancegpu_sql.query.result import QueryResult
    from lancegpu_sql.query.session import QuerySession


class Database:
    """An open database; made by `lancegpu_sql.connect`. A context manager: closing it ends its workers.

    Its handles may be used from any thread.
    """

    def __init__(self, services: Services) -> None:
        self._held = services
        self._session: QuerySession | None = None
        self._expected = ExpectedWorkers(services)

    def __repr__(self) -> str:
        return f"<database {self.uri}{', closed' if self._held.closed.is_set() else ''}>"

    def __getitem__(self, name: str) -> Table:
        """``db["docs"]`` is `open_table`."""
        return self.open_table(name)

    def __contains__(self, name: object) -> bool:
        """``"docs" in db``: whether there is a table or materialized view of this name."""
        return isinstance(name, str) and is_table_name(name) and self._services.tables.exists(name)

    __iter__: ClassVar[None] = None  # Python would ask for the tables 0, 1, 2, …; their names are `table_names()`

    @property
    def _services(self) -> Services:
        return self._held.check_open()

    @property
    def uri(self) -> str:
        """The folder of the tables."""
        return self._held.tables.uri

    @property
    def settings(self) -> Settings:
        """The settings it was opened with."""
        return self._held.settings

    # Tables

    def create_table(
        self,
        name: str,
        data: Any = None,
        mode: CreateMode = "create",
        *,
        schema: pa.Schema | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Create a table with stable row ids and fill it.

        Parameters
        ----------
        name
            Letters, digits, ``_``, ``-`` and ``.``.
        data
            An Arrow table, record batch, reader or dataset, a pandas or polars DataFrame, a list of dicts, or the path
            of a Parquet file or folder. None makes an empty table of `schema`.
        mode
            What to do if there is one: ``create`` refuses, ``overwrite`` replaces it, ``exist_ok`` leaves it,
            ``append`` adds to it.
        schema
            Names and types to read lists and dicts by.
        exist_ok
            LanceDB's word for ``mode="exist_ok"``.

        Raises
        ------
        AlreadyExists, InvalidName, InvalidData, StorageError
        InUse
            It would replace a materialized view, or a table that one reads.
        """
        arguments.text(name, "the name of a table")
        rows = [] if data is None and schema is not None else data
        tables.create_table(
            self._services, name, reader_of(rows, schema), "exist_ok" if exist_ok and mode == "create" else mode
        )
        return Table(self._held, name)

    def open_table(self, name: str) -> Table:
        """Return a handle to a table.

        Raises
        ------
        TableNotFound
        """
        known = self._services.tables
        try:
            known.open(arguments.text(name, "the name of a table"))
        except TableNotFound as exc:
            raise TableNotFound(told_missing(name, known.names()), **exc.facts) from exc
        return Table(self._held, name)

    def table_names(self) -> list[str]:
        """Return the names of the tables, sorted."""
        return self._services.tables.names()

    def drop_table(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a table with all its versions.

        Raises
        ------
        TableNotFound
            Unless `missing_ok`.
        InUse
            A materialized view reads it, or it is one.
        """
        tables.drop_table(self._services, arguments.text(name, "the name of a table"), missing_ok=missing_ok)

    def convert_table(self, name: str) -> Table:
        """Rewrite a table that LanceDB made into one with stable row ids; earlier versions and indexes do not stay.

        Raises
        ------
        TableNotFound
        CommitConflict
            It was changed meanwhile; nothing was done.
        """
        self._services.tables.convert(arguments.text(name, "the name of a table"))
        return Table(self._held, name)

    # Materialized views

    def create_materialized_view(
        self,
        name: str,
        query: str,
        *,
        schedule: str | None = None,
        with_no_data: bool = False,
        auto_refresh_enabled: bool | None = None,
        auto_refresh_interval_seconds: float | None = None,
        **options: Any,
    ) -> MaterializedView:
        """Make a view of a query's rows, and fill it.

        Where its first refresh fails, no view is made; what was computed is kept, and used where it is made again. One
        whose first refresh is cancelled or killed stays, empty, until its job goes on or it is refreshed anew.

        Parameters
        ----------
        name
            As of a table; no table may have it.
        query
            One that reads tables and views of this database, and may call Functions. Names of the session's own tables,
            views and macros mean nothing in it.
        schedule
            When agents refresh it by themselves; see `MaterializedView.set_schedule`.
        with_no_data
            Leave it empty until it is refreshed.
        auto_refresh_enabled, auto_refresh_interval_seconds
            A schedule in LanceDB's words: every so many seconds, or, where none are given, when a source changes.
        **options
            Of the first refresh, and of scheduled ones; see `MaterializedView.refresh`.

        Raises
        ------
        AlreadyExists, InvalidName
        InvalidQuery
            It is no query, or does not bind.
        StaleInput, FunctionFailed, WorkerLost, StorageError
            Of the first refresh.
        """
        checked = views.first_options(options)
        when = None if schedule is None else schedules.rule_of(schedule)
        view = views.create_view(self._services, name, query)
        assert view is not None
        if when is not None:
            view.set_schedule(when, **checked)
        if auto_refresh_enabled is not None or auto_refresh_interval_seconds is not None:
            view.set_auto_refresh(auto_refresh_enabled, auto_refresh_interval_seconds)
        if not with_no_data:
            views.fill(self._services, view, checked)
        return view

    def open_materialized_view(self, name: str) -> MaterializedView:
        """Return a handle to a view.

        Raises
        ------
        ViewNotFound
        """
        open_view(self._services.tables, arguments.text(name, "the name of a view"))
        return MaterializedView(self._held, name)

    def list_materialized_views(self) -> list[ViewStatus]:
        """Return how each view stands, by name."""
        return [status_of(self._services, view) for view in list_views(self._services)]

    def drop_materialized_view(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a view with all its versions, and its schedule.

        Raises
        ------
        ViewNotFound
            Unless `missing_ok`.
        InUse
            Another view reads it.
        """
        arguments.text(name, "the name of a view")
        if not (missing_ok and not self._services.tables.exists(name)):
            views.drop_view(self._services, name)

    def clear_results(self) -> None:
        """Forget the results of Functions that refreshes of views have kept; later ones compute them again."""
        views.clear_results(self._services)

    def remove_left_over(self, *, dry_run: bool = False) -> LeftOverResult:
        """Remove what killed processes and dropped things left in the database's folders; agents do it by themselves.

        Unfinished folders of tables, checkpoints of columns that are no more, results of Functions that are no more. What is
        left in a table's own folder is removed by `Table.optimize`.

        Parameters
        ----------
        dry_run
            Change nothing: the result's `steps` tell what would be removed, and why.
        """
        if dry_run:
            return maintenance.left_over(self._services, dry_run=True)
        return show(self._services, left_over_job(self._services))

    # Functions

    def create_function(
        self, function: Function | Callable[..., Any], name: str | None = None, **options: Any
    ) -> FunctionVersion:
        """Register a Function, or a new version of one.

        The same content registered again is the same version; other placement options then change where it runs, and
        nothing is computed anew.

        Parameters
        ----------
        function
            A decorated Function, or a plain function or class.
        name
            Its name in SQL; the callable's own if left out.
        **options
            As of `@function`; they win over the decorator's.

        Raises
        ------
        InvalidFunction, InvalidName
            What is wrong and what to write instead.
        GpuClassNotFound
            The database has no such GPU class, or none named ``default`` where none was given.
        """
        return functions.registration(self._services, function, name, options)[1]()

    def create_function_async(
        self, function: Function | Callable[..., Any], name: str | None = None, **options: Any
    ) -> JobHandle[FunctionVersion]:
        """Register a Function in the background; see `create_function`."""
        named, work = functions.registration(self._services, function, name, options)
        return function_job(self._services, named, work)

    def register_file(self, path: str | os.PathLike[str], name: str | None = None) -> list[FunctionVersion]:
        """Register the Functions of a Python file, whose code is imported in a process of its own, never here.

        Parameters
        ----------
        path
            The file.
        name
            Of one Function, decorated or not; all decorated ones if left out.

        Raises
        ------
        InvalidFunction, InvalidName
            There is no such file, or what is wrong with a Function of it; none is registered.
        LoadFailed, LoadTimeout
            The file cannot be imported.
        GpuClassNotFound
        """
        arguments.text(name, "the name of a Function", none=True)
        return functions.register_file(self._services, arguments.path(path, "the file of Functions"), name)

    def get_function(self, name: str, version: int | None = None) -> RegisteredFunction:
        """Return a registered Function, to be bound to columns: its latest version, or the one asked for.

        Raises
        ------
        FunctionNotFound
        """
        return registry.get_function(
            self._services.catalog,
            arguments.text(name, "the name of a Function"),
            arguments.count(version, "version", least=1, none=True),
        )

    def list_functions(self) -> list[FunctionVersion]:
        """Return the latest version of each Function, by name."""
        return registry.list_functions(self._services.catalog)

    def alter_function(self, name: str, **placement: Any) -> FunctionVersion:
        """Change where and how a Function runs: any of ``gpu_class``, ``gpus``, ``gpu_memory_bytes``, ``cpus``, ``batch_size``,
        ``concurrency``, ``image``, ``secrets``.

        No new version is made and nothing is computed anew.

        Raises
        ------
        FunctionNotFound, InvalidFunction, GpuClassNotFound
        """
        return functions.alter_function(self._services, arguments.text(name, "the name of a Function"), placement)

    def drop_function(self, name: str, version: int | None = None) -> None:
        """Forget a Function, or one version of it.

        Raises
        ------
        FunctionNotFound
        InUse
            A column is computed by it; `users` names it.
        """
        arguments.text(name, "the name of a Function")
        arguments.count(version, "version", least=1, none=True)
        functions.drop_function(self._services, name, version)

    # GPU classes

    def list_gpu_classes(self) -> list[gpu_classes.GpuClassInfo]:
        """Return the GPU classes that Functions may ask for: what they are, never what is free of them."""
        return gpu_classes.gpu_class_infos(self._services.catalog)

    def apply_gpu_classes(self, path: str | os.PathLike[str], *, dry_run: bool = False) -> tuple[str, ...]:
        """Make the database's GPU classes those of an operator's file; return what that changes, a line each.

        Raises
        ------
        InvalidGpuClass
            The file is wrong; nothing was changed.
        """
        return gpu_classes.apply_gpu_classes(
            self._services, arguments.path(path, "the file of GPU classes"), dry_run=dry_run
        )

    def render_gpu_class(
        self, name: str, function: str | None = None, *, namespace: str | None = None, image: str | None = None
    ) -> str:
        """Return the pod that a worker of a GPU class would be on Kubernetes, as YAML; no cluster is asked.

        Parameters
        ----------
        name
            Of the class.
        function
            The Function that the worker is for: how many GPUs and CPUs it needs, and its variables.
        namespace, image
            As of the placement, or the settings, if left out; the class's own image goes first.

        Raises
        ------
        GpuClassNotFound, FunctionNotFound
        InvalidInput
            The Function does not run on the class.
        InvalidPlacement
            There is no image, or the class does not allow it.
        """
        from lancegpu_sql.database.rendering import rendered_worker

        return rendered_worker(self._services, name, function, namespace=namespace, image=image)

    def check_gpu_classes(self, name: str | None = None) -> list[ClassCheck]:
        """Tell what the cluster where workers run has for each GPU class, or for one; it uses no GPU and makes nothing.

        Raises
        ------
        GpuClassNotFound
        InvalidPlacement
            Workers run on no cluster, or its credentials cannot be found.
        ClusterUnreachable, ClusterRefused
            The cluster does not answer, or not to us.
        """
        from lancegpu_sql.database.checking import checked_classes

        return checked_classes(self._services, name)

    # Queries

    def sql(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> QueryResult:
        """Run SQL: queries in DuckDB's, which may call Functions anywhere, and the statements of `docs/sql.md`.

        A query reads each table at its latest version; a statement that writes to one is one commit. A text with a
        statement that is not understood is refused as a whole; of several statements those behind one that fails are not
        run.

        Rows of a query are computed when they are asked for. A query that needs a worker is a job of the kind ``query`` from then on:
        `list_jobs` shows it and `cancel_job` ends it, as does `QueryResult.cancel` or Ctrl-C.

        Parameters
        ----------
        text
            One or more statements.
        params
            Values for ``?`` or ``$1`` (a sequence) or ``$name`` (a mapping) in the last statement.

        Raises
        ------
        ParseError
            A statement is not understood: `line`, `column` and `expected` say where, and what could stand there.
        InvalidQuery
            It does not bind or run.
        """
        *_, last = self.sql_each(text, params)
        return last

    def sql_each(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Iterator[QueryResult]:
        """Run SQL as `sql` does, and yield the result of each statement, which is carried out when it is asked for."""
        services = self._services
        if isinstance(text, str):
            self._expected.look_at(text)
        # DuckDB and what reads statements are loaded by the first query, while its workers start.
        from lancegpu_sql.database import statements

        return statements.run_each(services, self._query_session(), arguments.text(text, "the query"), params)

    def _query_session(self) -> QuerySession:
        known = self._services.tables
        if self._session is None:
            from lancegpu_sql.database.query_runs import QueryRuns
            from lancegpu_sql.query.session import QuerySession

            self._session = QuerySession(
                lambda name: known.open(name) if known.exists(name) else None, known.names, QueryRuns(self._services)
            )
        return self._session

    # Jobs

    def list_jobs(
        self,
        table: str | None = None,
        states: Sequence[JobState | str] | None = None,
        limit: int | None = None,
        *,
        finished_queries: bool = True,
    ) -> list[JobRecord]:
        """Return what is known of the jobs, newest first; those whose process died are seen as such.

        Parameters
        ----------
        table, states, limit
            Of this table only, in these states only, so many only.
        finished_queries
            False to leave out queries that finished, so that they are in nobody's way.
        """
        wanted = arguments.states(states)
        arguments.text(table, "table", none=True)
        arguments.count(limit, "limit", none=True)
        settle_dead(self._services.catalog)
        without = () if finished_queries else ENDS_WITH_PROCESS
        return self._services.catalog.jobs(table=table, states=wanted, limit=limit, without_finished=without)

    def get_job(self, job_id: str) -> JobHandle[Any]:
        """Return a handle to a job, whichever process runs it.

        Parameters
        ----------
        job_id
            Its id, or the beginning or end of it (from 4 characters on) that no other job has; so wherever a job is
            named.

        Raises
        ------
        JobNotFound
        """
        return followed(self._services, arguments.text(job_id, "the id of a job"))

    open_job = get_job

    def cancel_job(self, job_id: str) -> None:
        """Ask a job to stop, whichever process runs it; what it finished is kept.

        Raises
        ------
        JobNotFound
        """
        self.get_job(job_id).cancel()

    def pause_job(self, job_id: str) -> None:
        """Ask a job to hold, whichever process runs it, and to give its workers back; what it finished is kept.

        Raises
        ------
        JobNotFound
        """
        self.get_job(job_id).pause()

    def resume_job(self, job_id: str, *, wait: bool = True) -> Any:
        """Go on with a job that was interrupted, paused, cancelled or failed, from its checkpoints; show its progress.

        Parameters
        ----------
        job_id
            Its id.
        wait
            False leaves it to the database's agents and returns at once.

        Returns
        -------
        RefreshResult
            Of a refresh; with ``wait=False`` its `JobHandle`.

        Raises
        ------
        JobNotFound
        Conflict
            It runs, or it has finished.
        """
        if not wait:
            return requeue(self._services, job_id)
        return show(self._services, self.resume_job_async(job_id))

    def resume_job_async(self, job_id: str) -> JobHandle[Any]:
        """Go on with a job in a thread of this process; see `resume_job`."""
        return resume(self._services, arguments.text(job_id, "the id of a job"))

    # Schedules

    def list_schedules(self, table: str | None = None) -> list[ScheduleInfo]:
        """Return the schedules, of all tables or of one: when each is due, how it stands, and what its last refresh did."""
        return schedule_infos(self._services, arguments.text(table, "table", none=True))

    def enable_schedule(self, schedule: str) -> None:
        """Switch a schedule on; it is due as if it were set now.

        Parameters
        ----------
        schedule
            What it is about, as `list_schedules` names it: ``docs.vec``.

        Raises
        ------
        ScheduleNotFound
        """
        self._switch_schedule(schedule, enabled=True)

    def disable_schedule(self, schedule: str) -> None:
        """Switch a schedule off; a refresh that runs or waits goes on.

        Raises
        ------
        ScheduleNotFound
        """
        self._switch_schedule(schedule, enabled=False)

    def drop_schedule(self, schedule: str) -> None:
        """Forget a schedule; a refresh that runs or waits goes on.

        Raises
        ------
        ScheduleNotFound
        """
        name = arguments.text(schedule, "the name of a schedule")
        schedules.drop_schedule(self._services, subject_named(self._services, name))

    def _switch_schedule(self, schedule: str, *, enabled: bool) -> None:
        subject = subject_named(self._services, arguments.text(schedule, "the name of a schedule"))
        schedules.switch_schedule(self._services, subject, enabled=enabled)

    # Events

    def list_events(self, subject: str | None = None) -> list[EventRecord]:
        """Return what happened here, oldest first: to Functions, GPU classes, jobs and schedules.

        Parameters
        ----------
        subject
            Of one only: ``function NAME``, ``gpu classes``, ``job``, ``schedules`` (which were set, changed, dropped), or
            ``schedule column TABLE.COLUMN`` (what befell one).
        """
        return self._services.catalog.events(subject=arguments.text(subject, "subject", none=True))

    # Agents

    def list_agents(self) -> list[AgentRecord]:
        """Return the agents that run queued jobs of this database now."""
        return serving(self._services.catalog)

    def run_agent(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        concurrency: int | None = None,
        stop: threading.Event | None = None,
        serving: Callable[[str | None], None] = lambda _url: None,
    ) -> None:
        """Run the jobs of this database that are queued or due by a schedule, those of dead processes too, until told to stop.

        Parameters
        ----------
        port, host
            Where ``/metrics`` (Prometheus) and ``/healthz`` are served; nowhere if no port is given, 0 takes a free one.
        concurrency
            The most jobs at a time; the setting `agent_concurrency` if left out.
        stop
            Ends it when set; for ever if left out. Jobs then have `shutdown_grace_seconds` to finish what they are at
            and are given back.
        serving
            Called when it begins, with the address of its pages.

        Raises
        ------
        InvalidInput
            It cannot listen there.
        """
        # Loaded where an agent runs: it serves pages and calls hooks.
        from lancegpu_sql.database.agent import run_agent

        run_agent(
            self._services,
            host=host,
            port=port,
            concurrency=concurrency,
            stop=threading.Event() if stop is None else stop,
            serving=serving,
        )

    # Life

    def close(self) -> None:
        """Stop this process's jobs (they can be resumed), end its workers, close the catalog."""
        if self._session is not None:
            self._session.close()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
