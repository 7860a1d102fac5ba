"""A table, as a user holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from lancegpu_sql.catalog.schedule_models import column_subject
from lancegpu_sql.database import arguments, columns, jobs, maintenance, schedules
from lancegpu_sql.database.columns import ColumnStatus
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.merge_insert import MergeInsert
from lancegpu_sql.database.row_errors import errors_of_column
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import Conflict
from lancegpu_sql.functions.binding import Binding
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.registry import RegisteredFunction
from lancegpu_sql.jobs.errors import Errors
from lancegpu_sql.maintenance.request import OptimizeOptions, OptimizeResult
from lancegpu_sql.refresh.request import RefreshOptions, RefreshResult
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.tables import changes, upkeep
from lancegpu_sql.tables.changes import Change
from lancegpu_sql.tables.frames import library_of_frames
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.sources import reader_of
from lancegpu_sql.tables.upkeep import VersionRecord

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Table:
    """A table of a database; made by `Database.create_table` and `Database.open_table`.

    It always shows the latest version, unless `checkout` pinned one: then it shows that, and refuses to write.
    """

    def __init__(self, services: Services, name: str, version: int | None = None) -> None:
        self._held = services
        self._version = version
        self.name = name

    def __repr__(self) -> str:
        pinned = "" if self._version is None else f", checked out at version {self._version}"
        return f"<table {self.name}{pinned}>"

    def __len__(self) -> int:
        return self.count_rows()

    def __bool__(self) -> bool:
        return True  # an empty table is one, too, and to be asked for costs no reading

    @property
    def _services(self) -> Services:
        return self._held.check_open()

    def _snapshot(self) -> Snapshot:
        return self._services.tables.open(self.name, self._version)

    def _latest(self) -> Snapshot:
        if self._version is not None:
            raise Conflict(
                f"table {self.name!r} is checked out at version {self._version}; checkout_latest() to write",
                table=self.name,
            )
        return self._services.tables.open(self.name)

    # Reading

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return self._snapshot().schema

    @property
    def version(self) -> int:
        """The version shown: the latest, or the one checked out."""
        return self._snapshot().version

    def list_versions(self) -> list[VersionRecord]:
        """Return the versions that can be checked out, oldest first."""
        return upkeep.versions(self._snapshot())

    def count_rows(self, where: str | None = None) -> int:
        """Return the number of rows, or of those for which a condition (Lance's SQL) is true."""
        return self._snapshot().count_rows(arguments.text(where, "where", none=True))

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Return all rows, or some, as an Arrow table.

        Parameters
        ----------
        columns
            Which; all of the schema if left out. ``_rowid`` (uint64) may be among them: the number by which an error
            names a row, which the row keeps for ever in a table that this package made or converted.
        where
            A condition in Lance's SQL, such as ``"_rowid = 5"``.

        Raises
        ------
        ColumnNotFound, InvalidQuery
        """
        return self._snapshot().to_arrow(
            arguments.names(columns, "columns", none=True), arguments.text(where, "where", none=True)
        )

    def to_pandas(self, columns: Sequence[str] | None = None, where: str | None = None) -> pd.DataFrame:
        """Return all rows, or some, as a pandas DataFrame; see `to_arrow`.

        Raises
        ------
        InvalidInput
            pandas is not installed.
        """
        library_of_frames("pandas")
        frame: pd.DataFrame = self.to_arrow(columns, where).to_pandas()
        return frame

    def head(self, rows: int = 5, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows as an Arrow table; for `columns` see `to_arrow`."""
        return self._snapshot().head(arguments.count(rows, "rows"), arguments.names(columns, "columns", none=True))

    def checkout(self, version: int) -> None:
        """Show a version as it was; writing is refused until `checkout_latest`.

        Raises
        ------
        VersionNotFound
            There is none, or it was cleaned up.
        """
        self._services.tables.open(self.name, arguments.count(version, "version", least=1))
        self._version = version

    def checkout_latest(self) -> None:
        """Show the latest version again."""
        self._version = None

    # Writing rows

    def add(self, data: Any) -> None:
        """Append rows; columns that can be null may be missing, computed ones are empty until refreshed.

        Raises
        ------
        InvalidData, ComputedColumnWrite
        """
        changes.add(self._latest(), reader_of(data))

    def update(
        self,
        where: str | None = None,
        values: Mapping[str, Any] | None = None,
        *,
        values_sql: Mapping[str, str] | None = None,
    ) -> Change:
        """Change rows.

        Parameters
        ----------
        where
            A condition in Lance's SQL; None changes every row.
        values
            Column to Python value.
        values_sql
            Column to an expression in Lance's SQL.

        Raises
        ------
        InvalidQuery, InvalidData, ComputedColumnWrite
        """
        arguments.text(where, "where", none=True)
        return changes.update(self._latest(), columns.update_expressions(values, values_sql), where)

    def delete(self, where: str) -> Change:
        """Delete the rows for which a condition (Lance's SQL) is true.

        Raises
        ------
        InvalidQuery
        """
        return changes.delete(self._latest(), arguments.text(where, "where"))

    def merge_insert(self, on: str | Sequence[str]) -> MergeInsert:
        """Begin a merge by one or more key columns; see `MergeInsert`."""
        keys = (on,) if isinstance(on, str) else tuple(arguments.names(on, "on"))
        return MergeInsert(lambda data, rules: changes.merge_insert(self._latest(), reader_of(data), rules), keys)

    def restore(self, version: int | None = None) -> None:
        """Make a version the latest again: the one checked out, or the one named.

        Raises
        ------
        VersionNotFound
        """
        wanted = self._version if version is None else arguments.count(version, "version", least=1)
        if wanted is None:
            raise Conflict(f"name the version of table {self.name!r} to restore", table=self.name)
        upkeep.restore(self._services.tables.open(self.name), wanted)
        self._version = None

    @overload
    def optimize(
        self,
        *,
        cleanup_older_than: timedelta | None = ...,
        delete_unverified: bool = False,
        dry_run: bool = False,
        wait: Literal[True] = True,
    ) -> OptimizeResult: ...

    @overload
    def optimize(
        self,
        *,
        cleanup_older_than: timedelta | None = ...,
        delete_unverified: bool = False,
        dry_run: bool = False,
        wait: Literal[False],
    ) -> JobHandle[OptimizeResult]: ...

    def optimize(
        self,
        *,
        cleanup_older_than: timedelta | None = timedelta(days=7),
        delete_unverified: bool = False,
        dry_run: bool = False,
        wait: bool = True,
    ) -> OptimizeResult | JobHandle[OptimizeResult]:
        """Make small fragments fewer, bring indexes up to date, and remove what nobody needs any more.

        Rows keep their ids, values of computed columns stay current and views incremental: nothing is computed again.
        It may run while others read, write and refresh; agents of the database do the same by themselves.

        Parameters
        ----------
        cleanup_older_than
            Remove versions whose place another one took longer ago; None keeps all. A version stays that a tag or a branch
            names, that a view was made of, or that a query or a job reads.
        delete_unverified
            Remove files that no version has, however young; without it they are removed when they are a week old. Nobody
            else may be writing to the table. Where a job of this database does, they stay.
        dry_run
            Change nothing: the result's `steps` tell what would be done, and why.
        wait
            False leaves it to an agent of the database (`lancegpu agent`) and returns its job at once.

        Raises
        ------
        Conflict
            An earlier version is checked out.
        """
        if dry_run:
            options = self._upkeep(cleanup_older_than, delete_unverified)
            return maintenance.explained(self._services, self.name, options)
        if not wait:
            options = self._upkeep(cleanup_older_than, delete_unverified)
            return jobs.submit_optimize(self._services, self.name, options)
        job = self.optimize_async(cleanup_older_than=cleanup_older_than, delete_unverified=delete_unverified)
        return jobs.show(self._services, job)

    def optimize_async(
        self, *, cleanup_older_than: timedelta | None = timedelta(days=7), delete_unverified: bool = False
    ) -> JobHandle[OptimizeResult]:
        """Begin in a thread of this process what `optimize` does."""
        options = self._upkeep(cleanup_older_than, delete_unverified)
        return jobs.optimize_job(self._services, self.name, options)

    def _upkeep(self, cleanup_older_than: timedelta | None, delete_unverified: bool) -> OptimizeOptions:
        arguments.span(cleanup_older_than, "cleanup_older_than")
        seconds = None if cleanup_older_than is None else cleanup_older_than.total_seconds()
        self._latest()
        return OptimizeOptions.of(cleanup_older_than_seconds=seconds, delete_unverified=delete_unverified)

    # Columns

    def add_columns(
        self,
        added: Mapping[str, Binding | str] | Binding,
        *,
        schedule: str | None = None,
        auto_refresh_enabled: bool | None = None,
        auto_refresh_interval_seconds: float | None = None,
    ) -> None:
        """Add columns.

        Parameters
        ----------
        added
            Name to a binding such as ``embed(text=col("text"))``: a computed column, declared without writing data and
            empty until refreshed. Name to an expression in Lance's SQL: a column filled at once. A binding alone, of a
            Function that gives a struct: one column per field, filled together.
        schedule
            When the computed ones among them are refreshed by themselves; see `set_schedule`.
        auto_refresh_enabled, auto_refresh_interval_seconds
            The same in LanceDB's words: every so many seconds, or, where none are given, when the table changes.

        Raises
        ------
        InvalidBinding
            A column is missing or does not suit the Function.
        AlreadyExists, InvalidName, InvalidQuery
        """
        when = None if schedule is None else schedules.rule_of(schedule)
        bound = columns.add_columns(self._services, self._latest(), added)
        if when is None and auto_refresh_enabled is None and auto_refresh_interval_seconds is None:
            return
        latest = self._latest()
        for column in bound:
            if when is not None:
                schedules.schedule_column(self._services, latest, column, when)
            schedules.set_auto_refresh(
                self._services, latest, column, auto_refresh_enabled, auto_refresh_interval_seconds
            )

    def alter_column(
        self,
        name: str,
        *,
        function: Function | RegisteredFunction | None = None,
        rename: str | None = None,
        data_type: pa.DataType | None = None,
        auto_refresh_enabled: bool | None = None,
        auto_refresh_interval_seconds: float | None = None,
    ) -> None:
        """Point a computed column to another Function version, rename a column, or give it another type or schedule.

        Stored values stay until the next refresh, which computes them anew where the Function's content differs.
        `auto_refresh_enabled` and `auto_refresh_interval_seconds` are LanceDB's words for `set_schedule`.

        Raises
        ------
        ColumnNotFound, InvalidBinding, InUse, InvalidName
        """
        arguments.text(name, "the name of a column")
        arguments.text(rename, "rename", none=True)
        scheduled = auto_refresh_enabled is not None or auto_refresh_interval_seconds is not None
        if scheduled:
            schedules.set_auto_refresh(
                self._services, self._latest(), name, auto_refresh_enabled, auto_refresh_interval_seconds
            )
        if not scheduled or function is not None or rename is not None or data_type is not None:
            columns.alter_column(
                self._services, self._latest(), name, function=function, rename=rename, data_type=data_type
            )

    def drop_columns(self, names: Sequence[str]) -> None:
        """Remove columns; a computed column's proofs and its schedule go with it.

        Raises
        ------
        ColumnNotFound
        InUse
            A computed column reads one of them; drop that one too, or first.
        """
        going = [names] if isinstance(names, str) else arguments.names(names, "names")
        columns.drop_columns(self._services, self._latest(), going)

    def columns_status(self) -> list[ColumnStatus]:
        """Return of each computed column its Function version and how many rows are fresh, stale, failed, never computed."""
        return columns.columns_status(self._services, self._snapshot())

    def errors(self, column: str) -> Errors:
        """Return why those rows of a computed column failed that are failed now, in the order of the table.

        `Errors` is a sequence of `RowError`: `row_id`, `owner`, `message`, `traceback` and more. Its `groups()` tell what many
        rows have in common; `truncated` says whether more rows are failed than it is kept why: it is for `job_errors_kept` rows
        of a job, as long as the job itself is.

        Raises
        ------
        ColumnNotFound
            There is no computed column of that name.
        """
        return errors_of_column(self._services, self._snapshot(), arguments.text(column, "the name of a column"))

    # Refreshing

    @overload
    def refresh_column(
        self, column: str, where: str | None = None, *, wait: Literal[True] = True, **options: Any
    ) -> RefreshResult: ...

    @overload
    def refresh_column(
        self, column: str, where: str | None = None, *, wait: Literal[False], **options: Any
    ) -> JobHandle[RefreshResult]: ...

    def refresh_column(
        self, column: str, where: str | None = None, *, wait: bool = True, **options: Any
    ) -> RefreshResult | JobHandle[RefreshResult]:
        """Bring a computed column up to date, and show progress.

        Rows never computed, rows whose inputs changed and rows computed by another Function version are computed;
        nothing else. A GPU Function waits for its GPU class, however long; nothing ever runs on a CPU instead. Ctrl-C
        cancels it; what was finished is kept and used by the next refresh.

        Parameters
        ----------
        column
            Its name; siblings of one binding are refreshed together.
        where
            A DuckDB predicate over the columns and ``_rowid``: compute every row for which it is true, current or not,
            and no other.
        wait
            False leaves the refresh to an agent of the database (`lancegpu agent`) and returns its job at once; where no
            agent serves the database that is said, and the job stays ``queued``.
        **options
            ``batch_size, gpu_class, gpu_count, max_workers, queue, publication_interval_rows, part_target_seconds,
            call_timeout_seconds, init_timeout_seconds, max_worker_losses, max_wait_seconds, error_policy, max_failed_rows,
            max_failed_fraction, retry_failed, retry_attempts, retry_backoff_seconds, retry_errors, retry_messages``; see `docs/refresh.md`.

        Raises
        ------
        ColumnNotFound
            There is no computed column of that name.
        StaleInput
            It reads a computed column that is out of date; `columns` names what to refresh first.
        FunctionFailed
            User code is at fault: `RowFailed`, `WrongResult`, `LoadFailed`, `LoadTimeout` or `CallTimeout`.
        WorkerLost, CommitConflict, StorageError
        WaitedTooLong
            There was no room for a worker within `max_wait_seconds`, where that is given.
        """
        if not wait:
            return jobs.submit_refresh(self._services, self.name, *self._checked(column, where, options))
        return jobs.show(self._services, self.refresh_column_async(column, where, **options))

    def refresh_column_async(self, column: str, where: str | None = None, **options: Any) -> JobHandle[RefreshResult]:
        """Begin a refresh in a thread of this process; see `refresh_column`."""
        return jobs.refresh_job(self._services, self.name, *self._checked(column, where, options))

    def set_schedule(
        self,
        column: str,
        when: str | None,
        *,
        on_failure: str | Sequence[str] | None = None,
        on_waiting_longer_than: tuple[float, str | Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        """Let agents of the database refresh a computed column by a schedule, in the place of the one it may have.

        Parameters
        ----------
        column
            Its name; siblings of one binding are refreshed together.
        when
            ``every 10 minutes`` (first at once); ``cron */5 * * * *``, with a time zone where it is not UTC:
            ``cron 0 3 * * * Europe/Paris``; both with ``jitter 30 seconds`` behind it; or ``on change``. None drops the
            schedule.
        on_failure
            Whom to call when a refresh failed: the URL of a webhook, or a command as a list of its words.
        on_waiting_longer_than
            After how many seconds of waiting to call whom.
        **options
            As of `refresh_column`, `where` aside.

        Raises
        ------
        InvalidInput
            It is no schedule.
        ColumnNotFound
            There is no computed column of that name.
        ScheduleNotFound
            There is none to drop.
        """
        arguments.text(column, "the name of a column")
        if when is None:
            schedules.drop_schedule(self._services, column_subject(self.name, column))
            return
        schedules.schedule_column(
            self._services,
            self._latest(),
            column,
            when,
            on_failure=on_failure,
            on_waiting_longer_than=on_waiting_longer_than,
            options=options,
        )

    def _checked(
        self, column: str, where: str | None, options: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], RefreshOptions]:
        """Return the columns that are refreshed together, and how; what could not run is refused here."""
        arguments.text(column, "the name of a column")
        checked = RefreshOptions.of(where=where, **options)
        latest = self._latest()
        target = find_target(latest, column)
        columns.check_refresh(self._services, latest, target, checked)
        return target.names, checked
