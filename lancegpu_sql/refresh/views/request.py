"""What can be asked of a view's refresh."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.refresh.request import RefreshOptions, checked, queue_name
from lancegpu_sql.settings import MOST, Seconds

_OF_GPUS = ("gpu_class", "gpu_count", "queue")
_OWN = ("full", "cascade")


class ViewOptions(BaseModel):
    """The options of a refresh of a view; None means: as the settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    full: bool = Field(False, description="run the query over all rows, whatever has changed; kept results are used")
    cascade: bool = Field(False, description="refresh the views first that this one reads")
    batch_size: int | None = Field(None, ge=1, le=MOST, description="rows in one call of a Function, at most")
    gpu_class: str | None = Field(None, description="use this GPU class for Functions that use GPUs")
    gpu_count: int | None = Field(None, ge=1, le=MOST, description="GPUs used at a time for one Function, at most")
    max_workers: int | None = Field(None, ge=1, le=MOST, description="workers of one Function used at a time, at most")
    queue: Annotated[str, AfterValidator(queue_name)] | None = Field(
        None, description="the cluster's queue (Kueue) that admits workers with GPUs"
    )
    call_timeout_seconds: Seconds | None = Field(None, description="how long one call of a Function may take")
    init_timeout_seconds: Seconds | None = Field(None, description="how long loading a Function may take")
    max_worker_losses: int | None = Field(None, ge=0, le=MOST, description="how many workers one call may cost")
    max_wait_seconds: Seconds | None = Field(None, description="how long one wait for room for a worker may last")

    def for_function(self, version: FunctionVersion) -> RefreshOptions:
        """Return what of it concerns one of the Functions that the view calls."""
        values = self.model_dump(exclude=set(_OWN), exclude_none=True)
        if not version.placement.gpu:
            values = {name: value for name, value in values.items() if name not in _OF_GPUS}
        return RefreshOptions.of(**values)

    @classmethod
    def of(cls, **options: Any) -> ViewOptions:
        """Check options as a caller wrote them.

        Raises
        ------
        InvalidInput
            An option is unknown or its value does not suit; the message lists what there is.
        """
        return checked(cls, options, "unknown option {!r}; those of a view's refresh are: {}")
