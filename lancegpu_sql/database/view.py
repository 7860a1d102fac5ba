"""A materialized view, as a user holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from lancegpu_sql.catalog.schedule_models import ScheduleRule, view_subject
from lancegpu_sql.database import jobs, schedules
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.row_errors import errors_of_view
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.table import Table
from lancegpu_sql.database.view_status import ViewStatus, status_of
from lancegpu_sql.jobs.errors import Errors
from lancegpu_sql.refresh.request import RefreshResult
from lancegpu_sql.refresh.views.model import View, ViewDefinition, open_view
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.tables.upkeep import VersionRecord

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class MaterializedView:
    """A stored query, whose rows a refresh brings up to date; made by `Database.create_materialized_view`.

    To whoever reads it is a table: of the same name, at its latest version.
    """

    def __init__(self, services: Services, name: str) -> None:
        self._held = services
        self._table = Table(services, name)
        self.name = name

    def __repr__(self) -> str:
        return f"<materialized view {self.name}>"

    def __len__(self) -> int:
        return self.count_rows()

    def __bool__(self) -> bool:
        return True

    @property
    def _services(self) -> Services:
        return self._held.check_open()

    def _view(self) -> View:
        return open_view(self._services.tables, self.name)

    # Reading

    @property
    def definition(self) -> ViewDefinition:
        """Its query, what that reads and calls, and how it is refreshed."""
        return self._view().definition

    @property
    def status(self) -> ViewStatus:
        """Whether its rows are those that its query would give now; no row is read for it."""
        return status_of(self._services, self._view())

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return self._table.schema

    @property
    def version(self) -> int:
        """The version of its table."""
        return self._table.version

    def list_versions(self) -> list[VersionRecord]:
        """Return its versions, oldest first: a refresh that changed something made one each."""
        return self._table.list_versions()

    def count_rows(self, where: str | None = None) -> int:
        """Return the number of rows, or of those for which a condition (Lance's SQL) is true."""
        return self._table.count_rows(where)

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Return all rows, or some, as an Arrow table; see `Table.to_arrow`."""
        return self._table.to_arrow(columns, where)

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | None = None) -> pd.DataFrame:
        """Return all rows, or some, as a pandas DataFrame; see `Table.to_arrow`."""
        return self._table.to_pandas(columns, where)

    def head(self, rows: int = 5, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows as an Arrow table."""
        return self._table.head(rows, columns)

    def errors(self) -> Errors:
        """Return why those calls of Functions failed that it has no value of, as its last refresh left it.

        A refresh with ``error_policy="skip"`` leaves some. Where each of its rows is made of one row of one table, there is one
        error for each row of that table, whose id is `row_id`; else one for each input that failed. The `message` ends with
        the input. `Errors.truncated` says whether it is not known of all any more why; see `Table.errors`.
        """
        return errors_of_view(self._services, self._view())

    # Refreshing

    @overload
    def refresh(self, full: bool = False, *, wait: Literal[True] = True, **options: Any) -> RefreshResult: ...

    @overload
    def refresh(self, full: bool = False, *, wait: Literal[False], **options: Any) -> JobHandle[RefreshResult]: ...

    def refresh(
        self, full: bool = False, *, wait: bool = True, **options: Any
    ) -> RefreshResult | JobHandle[RefreshResult]:
        """Bring it up to date with the latest versions of its sources, in one commit, and show progress.

        Where each of its rows is made of one row of one table, only rows of changed source rows are computed; otherwise
        the query runs again, and only rows that differ are written. A Function is called only for inputs of which no
        result is kept. A GPU Function waits for its GPU class, however long; nothing ever runs on a CPU instead.

        Parameters
        ----------
        full
            Run the query over all rows, whatever has changed. Kept results are used; `Database.clear_results` forgets them.
        wait
            False leaves it to an agent of the database (`lancegpu agent`) and returns its job at once.
        **options
            ``cascade``, and what is known of `Table.refresh_column`: ``error_policy, max_failed_rows, max_failed_fraction,
            retry_failed, retry_attempts, retry_backoff_seconds, retry_errors, retry_messages, batch_size, gpu_class,
            gpu_count, max_workers, queue, call_timeout_seconds, init_timeout_seconds, max_worker_losses,
            max_wait_seconds``; see `docs/views.md`.

        Raises
        ------
        StaleInput
            It reads a computed column that is out of date; `columns` names what to refresh first.
        FunctionFailed
            User code is at fault: `RowFailed`, `WrongResult`, `LoadFailed`, `LoadTimeout` or `CallTimeout`.
        TooManyFailedRows
            With ``error_policy="skip"``: more rows failed than `max_failed_rows` or `max_failed_fraction` allow.
        WorkerLost, CommitConflict, StorageError
        WaitedTooLong
            There was no room for a worker within `max_wait_seconds`, where that is given.
        """
        checked = self._checked(full, options)
        if not wait:
            return jobs.submit_view(self._services, self.name, checked)
        done: RefreshResult = jobs.show(self._services, jobs.view_job(self._services, self.name, checked))
        return done

    def refresh_async(self, full: bool = False, **options: Any) -> JobHandle[RefreshResult]:
        """Begin a refresh in a thread of this process; see `refresh`."""
        return jobs.view_job(self._services, self.name, self._checked(full, options))

    # Schedules

    def set_schedule(
        self,
        when: str | ScheduleRule | None,
        *,
        on_failure: str | Sequence[str] | None = None,
        on_waiting_longer_than: tuple[float, str | Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        """Let agents of the database refresh it by a schedule, in the place of the one it may have.

        Parameters
        ----------
        when
            ``every 10 minutes``, ``cron */5 * * * *`` or ``on change`` of a table that it reads, as of
            `Table.set_schedule`; None drops the schedule.
        on_failure, on_waiting_longer_than
            As of `Table.set_schedule`.
        **options
            As of `refresh`.

        Raises
        ------
        InvalidInput
            It is no schedule.
        ScheduleNotFound
            There is none to drop.
        """
        if when is None:
            schedules.drop_schedule(self._services, view_subject(self.name))
            return
        schedules.schedule_view(
            self._services,
            self._view(),
            when,
            on_failure=on_failure,
            on_waiting_longer_than=on_waiting_longer_than,
            options=options,
        )

    def set_auto_refresh(self, enabled: bool | None = None, interval_seconds: float | None = None) -> None:
        """Set its schedule in LanceDB's words: every so many seconds, or, where none are given, when a source changes."""
        schedules.set_view_auto_refresh(self._services, self._view(), enabled, interval_seconds)

    def _checked(self, full: bool, options: Mapping[str, Any]) -> ViewOptions:
        checked = ViewOptions.of(full=full, **options)
        self._view()
        return checked
