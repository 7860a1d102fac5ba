"""What the catalog names: frozen values that cross files and processes as JSON."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from lancegpu_sql.catalog import process


def utc_now() -> datetime:
    """Return the present time, aware, in UTC."""
    return datetime.now(UTC)


UtcTime = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


class Model(BaseModel):
    """A frozen value; an unknown field is a mistake, not an extension."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(Model):
    """One parameter of a Function; `type` in Arrow's text form, e.g. ``fixed_size_list<float32, 384>``."""

    name: str
    type: str
    nullable: bool


class InitParameter(Model):
    """One parameter of a class Function's ``__init__``; `default` is a JSON value.

    `type` is its Python type, such as ``list[int] | None``; None where the annotation says nothing that can be checked.
    """

    name: str
    required: bool
    default: Any = None
    type: str | None = None


class FunctionPlacement(Model):
    """Where a Function may run. Not part of what it is: changing it makes no new version.

    `secrets` has, by variable, where the value comes from; the value itself is nowhere in a catalog.
    """

    gpu: bool = False
    gpu_class: str | None = None
    gpus: int = 1
    cpus: int = 1
    concurrency: int = 1
    batch_size: int | None = None
    gpu_memory_bytes: int | None = None
    image: str | None = None
    secrets: dict[str, str] = {}


class FunctionEnvironment(Model):
    """What the workers of a Function have of their own.

    `pip` is what was asked for and `lock` what it was resolved to; None where no packages were asked for, and before they
    are resolved. `code` names the modules that travel with it, and `imports` what it imports of its packages.
    `content_digest` is the version's without the lock: the same content keeps the lock that it has.
    """

    pip: tuple[str, ...] = ()
    lock: str | None = None
    code: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    content_digest: str


class FunctionVersion(Model):
    """One immutable version of a registered Function, with its present placement.

    `digest` is 32 hex characters; `python_version` is a minor release such as ``3.11``. `environment` is None where workers
    have what this program's own environment has.
    """

    name: str
    version: int
    digest: str
    parameters: tuple[Parameter, ...]
    output_type: str
    output_nullable: bool
    calling: Literal["row", "arrays", "record_batch"]
    is_class: bool = False
    init_parameters: tuple[InitParameter, ...] = ()
    deterministic: bool = True
    env: dict[str, str] = {}
    python_version: str
    environment: FunctionEnvironment | None = None
    created_at: UtcTime
    placement: FunctionPlacement = FunctionPlacement()


class ComputedColumn(Model):
    """A column declared as a Function applied to columns.

    It stands as JSON in the metadata of the Lance field, under ``lancegpu:computed``, so that a copied table still
    knows it. `inputs` maps each parameter to a Lance field id (an id outlives a rename), `bound` holds the values of
    the class's ``__init__`` parameters, `proof_column` is the hidden sibling shared by all columns of one binding, and
    `output_field` is the struct field that this column shows, where a struct result is spread over several.
    """

    column: str
    function: str
    version: int
    digest: str
    inputs: dict[str, int]
    bound: dict[str, Any] = {}
    proof_column: str
    output_field: str | None = None


class ProcessIdentity(Model):
    """One process, told from any other that ever had its number.

    `started_at` is in seconds since boot and `boot` names that boot: a clock that is set, a reboot and a recycled pid
    are all told apart.
    """

    host: str
    pid: int
    started_at: float
    boot: str = ""

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Return the identity of the calling process."""
        pid = os.getpid()
        return cls(
            host=process.host_name(), pid=pid, started_at=process.start_seconds(pid) or 0.0, boot=process.boot_name()
        )

    def is_alive(self) -> bool | None:
        """Tell whether the process lives; None where this process cannot know: another host or another container.

        A zombie is dead: it holds nothing and will do nothing.
        """
        if self.boot and self.boot != process.boot_name():
            rebooted = self.host == process.host_name() and self.boot[:36] != process.boot_name()[:36]
            return False if rebooted else None
        if not self.boot and self.host != process.host_name():
            return None
        return process.start_seconds(self.pid) == self.started_at


class WaitingOn(Model):
    """For what a job waits, since when, and why, in words an operator can act on."""

    gpu_class: str | None
    since: UtcTime
    reason: str
    message: str
    detail: dict[str, Any] = {}
    can_be_met: bool | None = None


class Progress(Model):
    """How far a job is. What is not known yet is None, never zero."""

    phase: str | None = None
    rows_planned: int | None = None
    rows_computed: int = 0
    rows_reused: int = 0
    rows_failed: int = 0
    rows_per_second: float | None = None
    seconds_left: float | None = None


class JobState(StrEnum):
    """The states of a job."""

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the job's present run is over."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)


UNENDED = frozenset(state for state in JobState if not state.ended)
"""The states of jobs that go on, now or later."""

OWNED = frozenset({JobState.WAITING, JobState.RUNNING})
"""The states of jobs at which a process works."""


class JobRecord(Model):
    """One piece of background work, as the catalog keeps it.

    `error` has the keys ``type``, ``message``, ``facts`` and, for a fault of our own, ``traceback``. `lease` is another
    one each time a process takes the job: it tells the present run from all earlier ones.
    """

    id: str
    kind: str
    table: str | None = None
    columns: tuple[str, ...] = ()
    request: dict[str, Any] = {}
    state: JobState = JobState.QUEUED
    waiting_on: WaitingOn | None = None
    progress: Progress | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    owner: ProcessIdentity | None = None
    created_at: UtcTime
    started_at: UtcTime | None = None
    finished_at: UtcTime | None = None
    timings: dict[str, Any] | None = None
    cancel_requested: bool = False
    pause_requested: bool = False
    lease: str | None = None

    @classmethod
    def new(
        cls, kind: str, *, table: str | None = None, columns: Iterable[str] = (), request: dict[str, Any] | None = None
    ) -> JobRecord:
        """Return a queued job with a fresh id."""
        return cls(
            id=new_job_id(),
            kind=kind,
            table=table,
            columns=tuple(columns),
            request=request or {},
            created_at=utc_now(),
        )


class AgentRecord(Model):
    """A process that runs queued jobs of a database.

    `kinds` are the kinds of jobs it can run and `lease_seconds` is how long its silence may last before it counts as
    dead. `heartbeat` counts its signs of life; `seen_at` is the last one's time and `silent_seconds` how long ago that is,
    both by the catalog's clock.
    """

    id: str
    identity: ProcessIdentity
    kinds: tuple[str, ...]
    concurrency: int
    lease_seconds: float
    heartbeat: int = 0
    started_at: UtcTime
    seen_at: UtcTime
    silent_seconds: float = 0.0


class EventDraft(Model):
    """An event that is about to be kept; the catalog gives it its id, subject and time."""

    kind: str
    message: str
    detail: dict[str, Any] = {}


class EventRecord(Model):
    """Something that happened, in words for people."""

    id: int
    job_id: str | None
    subject: str
    at: UtcTime
    kind: str
    message: str
    detail: dict[str, Any] = {}


INPUTS_OF = "inputs of "
"""With this a `proof_column` begins where no row is told, but the arguments of a view's Function; `row_id` is then a number."""


class RowErrorDraft(Model):
    """Why a row has no value, about to be kept.

    `digest` is that of what it was computed from, in hex, and `proof_column` the hidden column that keeps it, or what else
    tells the rows of several columns and views apart; `owner` is whose fault it is (`lancegpu_sql.errors.Owner`), `tries`
    how often the row was tried.
    """

    table: str
    proof_column: str
    row_id: int
    digest: str
    function: str
    version: int
    owner: str
    error_type: str
    message: str
    traceback: str
    tries: int


class RowErrorRecord(RowErrorDraft):
    """Why a row had no value when a job tried it."""

    id: int
    job_id: str
    at: UtcTime


class GpuClassRecord(Model):
    """An operator's GPU class; `spec` is what `placement` makes of it."""

    name: str
    spec: dict[str, Any]
    updated_at: UtcTime


def new_job_id() -> str:
    """Return a UUID of version 7 (RFC 9562): ids sort by the time they were made.

    The 12 bits after the milliseconds hold fractions of one (the RFC's method 3), so that the jobs of one loop sort.
    """
    milliseconds, remainder_nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = remainder_nanoseconds * 4096 // 1_000_000
    tail = int.from_bytes(os.urandom(8)) >> 2
    return str(uuid.UUID(int=(milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | tail))


def short_job_id(job_id: str) -> str:
    """Return the end of a job's id, enough of it to name the job; its beginning only says when it was made."""
    return job_id[-8:]


def job_made_at(job_id: str) -> float | None:
    """Return when a job's id was made, in seconds of `time.time`; None for a text that is no such id."""
    try:
        made = uuid.UUID(job_id)
    except ValueError:
        return None
    if made.version != 7:
        return None
    return ((made.int >> 80) + (made.int >> 64 & 0xFFF) / 4096) / 1000
