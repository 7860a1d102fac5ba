"""What can be asked of a view's refresh."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.refresh.request import CallOptions, RefreshOptions, checked

REFRESH_VIEW = "refresh_view"
"""The kind of the jobs that refresh materialized views."""

_OF_GPUS = ("gpu_class", "gpu_count", "queue")
_OWN = ("full", "cascade")


class ViewOptions(CallOptions):
    """The options of a refresh of a view."""

    full: bool = Field(False, description="run the query over all rows, whatever has changed; kept results are used")
    cascade: bool = Field(False, description="refresh the views first that this one reads")

    def for_function(self, version: FunctionVersion) -> RefreshOptions:
        """Return what of it concerns one of the Functions that the view calls."""
        values = self.model_dump(exclude=set(_OWN), exclude_defaults=True)
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
