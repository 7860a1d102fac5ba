"""A database's tables and Functions on a DuckDB connection of the user's."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.database.connect import connect
from lancegpu_sql.database.database import Database
from lancegpu_sql.database.location import holds_database
from lancegpu_sql.database.query_runs import QueryRuns
from lancegpu_sql.errors import FunctionNotFound, NotFound, TableNotFound
from lancegpu_sql.functions.binding import bind, col
from lancegpu_sql.query.attached import Attached, Connection
from lancegpu_sql.query.bound import made_with

Chosen = Iterable[str] | Mapping[str, str] | None
Values = Mapping[str, Mapping[str, Any]] | None

Found = TypeVar("Found")


def attach(
    connection: Connection,
    uri: str | os.PathLike[str] | Database,
    *,
    tables: Chosen = None,
    functions: Chosen = None,
    values: Values = None,
    **options: Any,
) -> Attachment:
    """Make the tables and Functions of a database available on a DuckDB connection.

    Tables are views, of this connection alone, at the version that they have now and until `Attachment.refresh`.
    Functions are Arrow UDFs at their latest version, for all connections to the same DuckDB. Their code runs in workers;
    rows that DuckDB's threads bring at a time are gathered. `docs/duckdb.md` says what `Database.sql` does beyond that.

    Parameters
    ----------
    connection
        Such as ``duckdb.connect()``.
    uri
        The folder of a database, or one that is open, which stays so.
    tables, functions
        Those to attach, a mapping gives them other names; all if left out.
    values
        For the ``__init__`` of classes, by the Function's name in the database:
        ``functions={"embed": "embed_small"}, values={"embed": {"model": "small"}}``. Attached a second time under another
        name, the same Function can have others.
    **options
        As of `connect`, where `uri` is a folder.

    Returns
    -------
    Attachment
        A context manager: `detach` takes everything off the connection and ends workers.

    Raises
    ------
    AlreadyExists
        The connection has something else of a name; nothing was attached.
    NotFound
        The folder is no database; none is made.
    TableNotFound, FunctionNotFound
        There is none of a name that was asked for.
    InvalidBinding
        Values that the class does not take.
    InvalidInput
        What is no connection; as of `connect`.
    """
    if isinstance(uri, str | os.PathLike) and "://" not in str(uri) and not holds_database(uri):
        raise NotFound(
            f"{uri} is no database: it holds neither tables (*.lance) nor a catalog. Name the folder of one, or make one "
            "with connect().",
            uri=str(uri),
        )
    database = uri if isinstance(uri, Database) else connect(uri, **options)
    owned = database is not uri
    try:
        return Attachment(connection, database, tables, functions, values, owned=owned)
    except BaseException:
        if owned:
            database.close()
        raise


class Attachment:
    """What `attach` made available; it is so until `detach`. A context manager.

    Attributes
    ----------
    tables : dict of str to int
        The version at which each table is read, by its name on the connection.
    functions : dict of str to int
        The version of each Function, likewise.
    """

    def __init__(
        self,
        connection: Connection,
        database: Database,
        tables: Chosen,
        functions: Chosen,
        values: Values,
        *,
        owned: bool,
    ) -> None:
        self.tables: dict[str, int] = {}
        self.functions: dict[str, int] = {}
        self._database = database
        self._owned = owned
        self._chosen_tables = tables if tables is None or isinstance(tables, Mapping) else list(tables)
        self._chosen_functions = functions if functions is None or isinstance(functions, Mapping) else list(functions)
        self._values = dict(values or {})
        self._detached = False
        self._attached = Attached(connection, QueryRuns(database._services))  # noqa: SLF001 - of this room
        try:
            self.refresh()
        except BaseException:
            self._attached.close()
            raise
        self._interrupts = _Interrupts(self.cancel)

    def __repr__(self) -> str:
        shown = ", ".join([*self.tables, *(f"{name}()" for name in self.functions)])
        return f"<attached {self._database.uri}: {'detached' if self._detached else shown}>"

    def refresh(self) -> None:
        """Look again: tables at the version they have now, new ones and Functions, without those that are gone.

        What the connection has not read of a result is dropped, as by any statement.

        Raises
        ------
        AlreadyExists
            The connection has something else of a new name; all is as before.
        """
        services = self._database._services  # noqa: SLF001 - of this room
        tables = _named(
            {name: name for name in services.tables.names()},
            self._chosen_tables,
            TableNotFound,
            "table",
            services.tables.open,
        )
        known = {version.name: version for version in services.catalog.functions()}
        for name in self._values:
            if name not in known:
                raise _no(FunctionNotFound, "Function", name, known)
        functions = _named(
            known,
            self._chosen_functions,
            FunctionNotFound,
            "Function",
            lambda name: _made_with(known[name], self._values.get(name, {})),
        )
        self._attached.show(tables, functions)
        self.tables = {name: snapshot.version for name, snapshot in tables.items()}
        self.functions = {name: version.version for name, version in functions.items()}

    def cancel(self) -> None:
        """End the calls of Functions that are under way, from another thread; their query fails."""
        self._attached.gathered.cancel()

    def detach(self) -> None:
        """Take it all off the connection, which stays open, and end workers. Idempotent."""
        if self._detached:
            return
        self._detached = True
        self._interrupts.close()
        try:
            self._attached.close()
        finally:
            if self._owned:
                self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.detach()


def _named(
    known: Mapping[str, Any], chosen: Chosen, missing: type[Exception], kind: str, found: Callable[[str], Found]
) -> dict[str, Found]:
    """What was chosen, by the names that it is to have."""
    names = {name: name for name in known} if chosen is None else chosen
    names = names if isinstance(names, Mapping) else {name: name for name in names}
    for name in names:
        if name not in known:
            raise _no(missing, kind, name, known)
    return {shown: found(name) for name, shown in names.items()}


def _no(missing: type[Exception], kind: str, name: str, known: Iterable[str]) -> Exception:
    return missing(f"The database has no {kind} {name!r}; it has {', '.join(sorted(known)) or 'none'}.")


def _made_with(version: FunctionVersion, values: Mapping[str, Any]) -> FunctionVersion:
    """The version with values for its class, once they are known to suit it."""
    if not values:
        return version  # if its class needs some, calls say so
    names = [each.name for each in version.parameters]
    return made_with(version, bind(version, names, version.init_parameters, list(map(col, names)), values).bound)


class _Interrupts:
    """Hears Ctrl-C while a Function is computed in a thread of DuckDB's: DuckDB hears it, too, but waits for that thread.

    Python tells the main thread only, and its handler alone; one that is neither Python's own nor another of these is left
    as it is.
    """

    def __init__(self, interrupted: Callable[[], None]) -> None:
        self._interrupted: Callable[[], None] | None = None
        self._before = signal.getsignal(signal.SIGINT)
        ours = self._before is signal.default_int_handler or isinstance(
            getattr(self._before, "__self__", None), _Interrupts
        )
        if ours and threading.current_thread() is threading.main_thread():
            self._interrupted = interrupted
            signal.signal(signal.SIGINT, self._handle)

    def close(self) -> None:
        """Hear nothing any more, and leave the handler as it was, unless another came after."""
        self._interrupted = None
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted is not None:
            self._interrupted()
        assert callable(self._before)
        self._before(number, frame)
