"""Every error a caller can meet, drawn as one tree.

::

    LanceGpuError
    ├── InvalidInput                 what was asked for cannot be; nothing was done
    │   ├── InvalidFunction          a Function's definition
    │   ├── InvalidBinding           a Function applied to columns that do not suit it
    │   ├── InvalidGpuClass          an operator's file of GPU classes
    │   ├── InvalidName              a name that Lance, LanceDB or SQL could not carry
    │   ├── InvalidData              rows that do not suit a table
    │   ├── InvalidQuery             SQL that does not parse, bind or run
    │   │   └── ParseError           it does not parse: where, and what was expected
    │   ├── ComputedColumnWrite      a computed column written by hand
    │   └── ViewWrite                a materialized view written by hand
    ├── NotFound
    │   ├── TableNotFound, ColumnNotFound, FunctionNotFound, GpuClassNotFound, JobNotFound, ScheduleNotFound,
    │   └── VersionNotFound, ViewNotFound
    ├── Conflict                     right in itself, not in the present state
    │   ├── AlreadyExists
    │   ├── InUse                    something else needs what would go
    │   ├── GpuClassesDiffer         the file says one thing, the catalog another
    │   ├── StaleInput               a computed column reads one that is out of date
    │   └── CommitConflict           another writer was first, and kept being first
    ├── FunctionFailed               user code is at fault
    │   ├── RowFailed                it raised on a row (or on a batch that holds it)
    │   ├── WrongResult              its result has the wrong type or length
    │   ├── LoadFailed               it could not be imported, unpickled or initialised
    │   ├── LoadTimeout              it took longer than `init_timeout_seconds`
    │   ├── CallTimeout              one call took longer than `call_timeout_seconds`
    │   └── TooManyFailedRows        more rows failed than `max_failed_rows` or `max_failed_fraction` allow
    ├── EnvironmentFailed            a Function's packages cannot be had, or its environment not be made
    ├── WorkerLost                   a worker process ended under its work
    ├── JobFailed                    another process's job ended badly
    ├── Cancelled                    someone asked for it
    ├── StillWaiting                 a timeout ended while the job waits or runs on
    ├── WaitedTooLong                there was no room for a worker within `max_wait_seconds`
    ├── PlacementError               the place where workers run is at fault, or what was asked of it
    │   ├── InvalidPlacement         workers cannot be placed as things are set up
    │   ├── ClusterUnreachable       the API server does not answer, or asks to come back later
    │   └── ClusterRefused           the cluster refused a call
    │       └── ClusterForbidden     by its access rules, a quota or an admission policy
    ├── StorageError                 a disk or an object store refused
    └── CatalogError                 the catalog cannot be read or is newer than this release
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Owner = Literal["user", "input", "function", "device", "memory", "environment", "timeout", "ours"]
"""Whose fault an error is, where rows were computed: the `owner` of what failed.

`user`: the Function raised on a row. `input`: a row ends the worker that computes it. `function`: its results do not suit,
or it cannot be loaded. `device`: a GPU is at fault. `memory`: one row needs more than there is. `environment`: what is
installed, or the machine, is at fault. `timeout`: it took too long. `ours`: a fault of this program.
"""


class LanceGpuError(Exception):
    """The root of the tree.

    Parameters
    ----------
    message
        What happened, to which object, and what to do next.
    **facts
        What a program may want to read; each becomes an attribute.
    """

    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[LanceGpuError], message: str, facts: dict[str, Any]) -> LanceGpuError:
    return kind(message, **facts)


class InvalidInput(LanceGpuError):
    """What was asked for cannot be; nothing was done."""

    http_status = 400


class InvalidFunction(InvalidInput):
    """A Function's definition lacks something or contradicts itself."""


class InvalidBinding(InvalidInput):
    """A Function was applied to columns or values that do not suit its parameters."""


class InvalidGpuClass(InvalidInput):
    """An operator's file of GPU classes is wrong; `path` and `line` say where."""


class InvalidName(InvalidInput):
    """A name that Lance, LanceDB or SQL could not carry."""


class InvalidData(InvalidInput):
    """Rows that do not suit the table they are meant for."""


class InvalidQuery(InvalidInput):
    """SQL that does not parse, bind or run."""


class ParseError(InvalidQuery):
    """SQL that does not parse; `line`, `column` (from 1) and `position` say where, `expected` what could stand there."""


class ComputedColumnWrite(InvalidInput):
    """A computed column was written by hand; `columns` names it."""


class ViewWrite(InvalidInput):
    """A materialized view was written by hand; `view` names it."""


class NotFound(LanceGpuError):
    """Nothing goes by that name."""

    http_status = 404


class TableNotFound(NotFound):
    """The database has no such table."""


class ColumnNotFound(NotFound):
    """The table has no such column, or it is not a computed one."""


class FunctionNotFound(NotFound):
    """No Function of that name, or not that version of it, is registered."""


class GpuClassNotFound(NotFound):
    """The database knows no such GPU class."""


class JobNotFound(NotFound):
    """The database has no such job."""


class ScheduleNotFound(NotFound):
    """There is no schedule of that; `subject` says of what."""


class VersionNotFound(NotFound):
    """The table has no such version, or it has been cleaned up."""


class ViewNotFound(NotFound):
    """The database has no such materialized view."""


class Conflict(LanceGpuError):
    """Right in itself, but not in the present state of things."""

    http_status = 409


class AlreadyExists(Conflict):
    """The name is taken."""


class InUse(Conflict):
    """Something else needs what would go; `users` names it."""


class GpuClassesDiffer(Conflict):
    """The file of GPU classes says something else than the catalog; `differences` lists it."""


class StaleInput(Conflict):
    """A computed column reads one that is out of date; `columns` names what to refresh first."""


class CommitConflict(Conflict):
    """Other writers were first, and kept being first."""

    retryable = True


class FunctionFailed(LanceGpuError):
    """User code is at fault; `function` and `version` name it."""


class RowFailed(FunctionFailed):
    """The Function raised on a row.

    `row_id` (or `row_ids`, where the Function takes whole batches), `arguments`, `error_type` and `user_traceback`
    say on which and how. The row itself is `FROM t WHERE _rowid = …`; `refresh_column(…, where="_rowid = …")`
    computes it alone.
    """


class WrongResult(FunctionFailed):
    """The Function's result has the wrong type or length; `expected` and `got` say which."""


class LoadFailed(FunctionFailed):
    """The Function could not be imported, unpickled or initialised; `user_traceback` says why."""


class LoadTimeout(FunctionFailed):
    """The Function was not ready within `init_timeout_seconds`."""


class CallTimeout(FunctionFailed):
    """One call took longer than `call_timeout_seconds`."""


class TooManyFailedRows(FunctionFailed):
    """More rows failed than was allowed; `rows_failed`, `rows_tried` and `limit` say how many."""


class EnvironmentFailed(LanceGpuError):
    """The packages of a Function cannot be resolved or installed, or its Python is missing; `said` has the installer's words."""

    http_status = 400


class WorkerLost(LanceGpuError):
    """A worker process ended under its work; `cause` is `signal`, `memory`, `exit` or `unreachable`."""

    retryable = True


class JobFailed(LanceGpuError):
    """A job that another process ran ended badly; `error_type` and the message are its own."""


class Cancelled(LanceGpuError):
    """Someone asked for it to stop; what was checkpointed is kept."""

    http_status = 409


class StillWaiting(LanceGpuError):
    """The time given for waiting is over; the job goes on. `waiting_on` says for what it waits."""

    http_status = 202
    retryable = True


class WaitedTooLong(LanceGpuError):
    """There was no room for a worker within `max_wait_seconds`; `gpu_class`, `reason` and `can_be_met` say for what it waited."""

    http_status = 503
    retryable = True


class PlacementError(LanceGpuError):
    """The place where workers run is at fault, or what was asked of it."""


class InvalidPlacement(PlacementError):
    """Workers cannot be placed as things are set up; the message says what to change."""

    http_status = 400


class ClusterUnreachable(PlacementError):
    """The cluster's API server does not answer, or asks to come back later."""

    http_status = 503
    retryable = True


class ClusterRefused(PlacementError):
    """The cluster refused a call; `verb` and `resource` say which, `said` how it put it."""

    http_status = 400


class ClusterForbidden(ClusterRefused):
    """The cluster forbids it: by its access rules, a quota, or an admission policy."""

    http_status = 403


class StorageError(LanceGpuError):
    """A disk or an object store refused; `path` says where."""


class CatalogError(LanceGpuError):
    """The catalog cannot be read, or a newer release made it; `retryable` where it may work later by itself."""
