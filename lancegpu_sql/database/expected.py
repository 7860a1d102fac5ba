"""Workers that a text is about to ask for, started while it is read and planned."""

from __future__ import annotations

import re
from contextlib import suppress

from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.refresh.need import query_need

_READS = re.compile(r"\s*(SELECT|FROM|WITH)\b", re.IGNORECASE)


class ExpectedWorkers:
    """Starts one worker for each Function that the queries of a database seem to call, the first time that they do.

    Only where that takes nothing from others: Functions without GPU, on this machine. A name before a bracket is enough to go
    by; a worker that is not asked for after all stands idle for a while, as others do.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._seen: set[str] = set()

    def look_at(self, text: str) -> None:
        """Start what a text seems to need."""
        services = self._services
        if services.placement.cpu_ladder or not _READS.match(text):
            return
        for version in services.catalog.functions():
            if version.digest in self._seen or version.placement.gpu or version.init_parameters:
                continue
            if re.search(rf"(?<!\w){re.escape(version.name)}\"?\s*\(", text, re.IGNORECASE):
                self._seen.add(version.digest)
                job_id = JobRecord.new("query").id  # of a job that the query may yet become
                with suppress(LanceGpuError):  # the query will tell
                    services.pool.start_ahead(
                        query_need(services.catalog, services.settings, version, job_id, "a query")
                    )
