"""When refreshes are due: `rule` is the arithmetic and `status` how a schedule stands, both pure.

`scheduler` acts: an agent lets it look, and it queues a job for each schedule that is due; `hooks` calls those who want to
know. What is refreshed is none of its business: a job's kind, table, columns and request stand in the schedule, and whether
a source has news is asked of whoever knows such sources.
"""

from __future__ import annotations

from lancegpu_sql.jobs.schedules.scheduler import Scheduler, Sources
from lancegpu_sql.jobs.schedules.status import ScheduleState, ScheduleStatus, status_of

__all__ = ["ScheduleState", "ScheduleStatus", "Scheduler", "Sources", "status_of"]
