"""Jobs: pieces of background work that outlive a call, with a record that every process of a database can read.

`job` says which state follows which, `runner` runs work in this process and `context` is what the work reports to;
`agent` runs queued jobs, which `claims` shares out between processes; `following` waits for other processes' jobs,
`housekeeping` settles what dead processes left, `display` shows progress.
*What* a job does is given to it: nothing here knows tables, Functions or workers.
"""

from __future__ import annotations

from lancegpu_sql.jobs.agent import Agent
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.display import watch
from lancegpu_sql.jobs.following import FollowedJob
from lancegpu_sql.jobs.housekeeping import cancel, pause, prune, requeue, settle_dead
from lancegpu_sql.jobs.log import read_log
from lancegpu_sql.jobs.runner import JobRunner
from lancegpu_sql.jobs.running import RunningJob

__all__ = [
    "Agent",
    "FollowedJob",
    "JobContext",
    "JobRunner",
    "RunningJob",
    "cancel",
    "pause",
    "prune",
    "read_log",
    "requeue",
    "settle_dead",
    "watch",
]
