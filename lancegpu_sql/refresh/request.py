"""What can be asked of a refresh, and what it answers."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import MOST, Seconds, shown

Mode = Literal["incremental", "full", "no_op"]


# As a label's value has it, which is how Kueue is told.
_QUEUE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a lone surrogate)") from None
    return text


def _queue_name(name: str) -> str:
    if not _QUEUE_NAME.fullmatch(name):
        raise ValueError("a queue's name has a-z, 0-9, - and ., at most 63 of them")
    return name


class RefreshOptions(BaseModel):
    """The options of a refresh of a computed column; None means: as the settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: Annotated[str, AfterValidator(_whole)] | None = Field(
        None, description="a DuckDB predicate: recompute every row for which it is true"
    )
    error_policy: Literal["fail"] = Field("fail", description="a row that raises fails the refresh")
    batch_size: int | None = Field(None, ge=1, le=MOST, description="rows in one call of the Function, at most")
    gpu_class: str | None = Field(None, description="use this GPU class instead of the Function's own")
    gpu_count: int | None = Field(None, ge=1, le=MOST, description="GPUs used at a time, at most")
    max_workers: int | None = Field(None, ge=1, le=MOST, description="workers used at a time, at most")
    queue: Annotated[str, AfterValidator(_queue_name)] | None = Field(
        None, description="the cluster's queue (Kueue) that admits the workers, instead of the GPU class's"
    )
    publication_interval_rows: int | None = Field(
        None, ge=1, le=MOST, description="publish whenever this many rows were computed, not only at the end"
    )
    part_target_seconds: Seconds | None = Field(None, description="how long the work between checkpoints may take")
    call_timeout_seconds: Seconds | None = Field(None, description="how long one call of the Function may take")
    init_timeout_seconds: Seconds | None = Field(None, description="how long loading the Function may take")
    max_worker_losses: int | None = Field(None, ge=0, le=MOST, description="how many workers one call may cost")

    @classmethod
    def of(cls, **options: Any) -> RefreshOptions:
        """Check options as a caller wrote them.

        Raises
        ------
        InvalidInput
            An option is unknown or its value does not suit; the message lists what there is.
        """
        try:
            return cls(**options)
        except ValidationError as exc:
            fault = exc.errors()[0]
            name = str(fault["loc"][0]) if fault["loc"] else "?"
            if fault["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                raise InvalidInput(f"unknown refresh option {name!r}; the options are: {known}", option=name) from exc
            if name == "error_policy":
                raise InvalidInput(
                    f"error_policy={shown(options[name])} is not to be had; this release knows 'fail' "
                    "(a row that raises fails the refresh, and finished parts are kept)",
                    option=name,
                ) from exc
            raise InvalidInput(f"refresh option {name}={shown(options[name])}: {fault['msg']}", option=name) from exc


class RefreshResult(BaseModel):
    """What a refresh did.

    Attributes
    ----------
    mode
        ``no_op``: every value was current; ``full``: every row was computed; ``incremental``: some were.
    rows_assigned
        Rows whose value this refresh computed and published.
    rows_failed
        Rows that were tried and got no value.
    rows_remaining
        Rows of the published version that are not current: outside `where`, failed, or written meanwhile.
    version
        The table's version that readers see now.
    job_id
        The job that did it.
    """

    model_config = ConfigDict(frozen=True)

    mode: Mode
    rows_assigned: int
    rows_failed: int
    rows_remaining: int
    version: int
    job_id: str
