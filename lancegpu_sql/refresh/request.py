"""What can be asked of a refresh, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from lancegpu_sql.apply import RetryPolicy
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import MOST, MOST_SECONDS, Seconds, shown

Mode = Literal["incremental", "full", "no_op"]

_Options = TypeVar("_Options", bound=BaseModel)


# As a label's value has it, which is how Kueue is told.
REFRESH_COLUMN = "refresh_column"
"""The kind of the jobs that refresh computed columns."""

_QUEUE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    return text


def queue_name(name: str) -> str:
    """Return the name of a queue as it is; raises ValueError where it is none."""
    if not _QUEUE_NAME.fullmatch(name):
        raise ValueError("a queue's name has a-z, 0-9, - and ., at most 63 of them")
    return name


def _names(names: Any) -> Any:
    """Take names in a text, with commas between them, for a list of them: SQL has no lists here."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as exc:
        raise ValueError(f"it is no regular expression: {exc}") from None
    return text


class CallOptions(BaseModel):
    """How a refresh calls Functions, of a column or of a view; None means: as the settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error_policy: Literal["fail", "skip"] = Field(
        "fail", description="whether a row that fails, fails the refresh, or is null and marked as failed"
    )
    max_failed_rows: int | None = Field(
        None, ge=0, le=MOST, description="with 'skip': the refresh fails beyond so many"
    )
    max_failed_fraction: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        None, description="with 'skip': the refresh fails where more than this share of the rows to compute failed"
    )
    retry_failed: bool = Field(False, description="compute rows again that failed in an earlier refresh")
    retry_attempts: int = Field(1, ge=1, le=1_000, description="how often a row that raises is tried in all")
    retry_backoff_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)] = Field(
        1.0, description="the wait before the second try, doubled before each further one; a Retry-After comes first"
    )
    retry_errors: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="names of the exceptions worth another try; none named: all"
    )
    retry_messages: Annotated[str, AfterValidator(_pattern)] | None = Field(
        None, description="a regular expression that the messages of exceptions worth another try contain"
    )
    batch_size: int | None = Field(None, ge=1, le=MOST, description="rows in one call of a Function, at most")
    gpu_class: str | None = Field(None, description="use this GPU class instead of the Function's own")
    gpu_count: int | None = Field(None, ge=1, le=MOST, description="GPUs used at a time for one Function, at most")
    max_workers: int | None = Field(None, ge=1, le=MOST, description="workers of one Function used at a time, at most")
    queue: Annotated[str, AfterValidator(queue_name)] | None = Field(
        None, description="the cluster's queue (Kueue) that admits the workers, instead of the GPU class's"
    )
    call_timeout_seconds: Seconds | None = Field(None, description="how long one call of a Function may take")
    init_timeout_seconds: Seconds | None = Field(None, description="how long loading a Function may take")
    max_worker_losses: int | None = Field(None, ge=0, le=MOST, description="how many workers one call may cost")
    max_wait_seconds: Seconds | None = Field(None, description="how long one wait for room for a worker may last")

    @property
    def skips(self) -> bool:
        """Whether rows may be left without a value."""
        return self.error_policy == "skip"

    @property
    def retry(self) -> RetryPolicy:
        """Which failures are tried again."""
        return RetryPolicy(self.retry_attempts, self.retry_backoff_seconds, self.retry_errors, self.retry_messages)

    @model_validator(mode="after")
    def _bounds_need_skip(self) -> Self:
        if not self.skips:
            named = [name for name in ("max_failed_rows", "max_failed_fraction") if getattr(self, name) is not None]
            if named:
                raise ValueError(f"{named[0]} bounds what error_policy='skip' leaves out: it needs that")
        return self


class RefreshOptions(CallOptions):
    """The options of a refresh of a computed column."""

    where: Annotated[str, AfterValidator(_whole)] | None = Field(
        None, description="a DuckDB predicate: recompute every row for which it is true"
    )
    publication_interval_rows: int | None = Field(
        None, ge=1, le=MOST, description="publish whenever this many rows were computed, not only at the end"
    )
    part_target_seconds: Seconds | None = Field(None, description="how long the work between checkpoints may take")

    @classmethod
    def of(cls, **options: Any) -> RefreshOptions:
        """Check options as a caller wrote them.

        Raises
        ------
        InvalidInput
            An option is unknown or its value does not suit; the message lists what there is.
        """
        return checked(cls, options, "unknown refresh option {!r}; the options are: {}")


def checked(kind: type[_Options], options: Mapping[str, Any], unknown: str) -> _Options:
    """Return options as a caller wrote them, checked; `unknown` tells of one there is not, and of those there are.

    Raises
    ------
    InvalidInput
        An option is unknown or its value does not suit.
    """
    for name, value in options.items():
        field = kind.model_fields.get(name)
        if (
            isinstance(value, bool)
            and field is not None
            and bool not in (field.annotation, *get_args(field.annotation))
        ):
            # For Python it is 1 or 0.
            raise InvalidInput(f"option {name} is neither true nor false, but was given as {shown(value)}", option=name)
    try:
        return kind(**options)
    except ValidationError as exc:
        fault = exc.errors()[0]
        name = str(fault["loc"][0]) if fault["loc"] else "?"
        if fault["type"] == "extra_forbidden":
            known = ", ".join(kind.model_fields)
            raise InvalidInput(unknown.format(name, known), option=name) from exc
        if name == "error_policy":
            raise InvalidInput(
                f"error_policy={shown(options[name])} is not to be had; there are 'fail' (a row that fails, fails the "
                "refresh, and what was computed is kept) and 'skip' (it is null, noted as failed, and told by errors() of "
                "its table or view)",
                option=name,
            ) from exc
        if name == "?":
            raise InvalidInput(str(fault["msg"]).removeprefix("Value error, ")) from exc
        raise InvalidInput(f"refresh option {name}={shown(options[name])}: {fault['msg']}", option=name) from exc


class RefreshResult(BaseModel):
    """What a refresh of a computed column or of a view did.

    Attributes
    ----------
    mode
        ``no_op``: every value was current; ``full``: every row was computed, or the view's query ran again;
        ``incremental``: some rows were.
    rows_assigned
        Rows whose value this refresh computed and published; of a view, the rows that it wrote.
    rows_failed
        Rows that it tried and that got no value; they are published as null, and `Table.errors` tells why. Of a view: rows of
        its source, or, where its query runs again, inputs of Functions that failed; see `MaterializedView.errors`.
    rows_remaining
        Rows of the published version that are not current: outside `where`, failed, or written meanwhile. Of a view: calls
        that have no value because they failed, in this refresh or in an earlier one.
    version
        The table's version that readers see now.
    job_id
        The job that did it.
    rows_removed
        Of a view: rows that went, those among them in whose place others came.
    calls_made, calls_reused
        Of a view: for how many inputs Functions were called, and for how many rows a result was there: kept from an
        earlier refresh, or of an equal input. None for a column.
    source_versions
        Of a view: the versions of its sources that its rows are made of.
    """

    model_config = ConfigDict(frozen=True)

    mode: Mode
    rows_assigned: int
    rows_failed: int
    rows_remaining: int
    version: int
    job_id: str
    rows_removed: int = 0
    calls_made: int | None = None
    calls_reused: int | None = None
    source_versions: dict[str, int] = {}
