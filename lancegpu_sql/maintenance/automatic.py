"""When agents look after a table by themselves: pure."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from lancegpu_sql.maintenance.plan import TablePlan
from lancegpu_sql.tables.upkeep import VersionRecord

MANY_VERSIONS = 20
"""So many versions at once are worth a job; fewer of them are, once a day."""

LONGEST_SECONDS = 24 * 3600.0
"""At least so often a table is looked at, whether it seems to have changed or not."""


def is_due(plan: TablePlan, versions: Sequence[VersionRecord], keep_seconds: float | None, now: datetime) -> bool:
    """Tell whether what could be done is worth a job now."""
    if plan.groups or plan.files != "none" or plan.checkpoints or len(plan.versions) >= MANY_VERSIONS:
        return True
    if not plan.versions or keep_seconds is None:
        return False
    going = set(plan.versions)
    replaced_at = min(newer.committed_at for old, newer in pairwise(versions) if old.version in going)
    return now - replaced_at >= timedelta(seconds=keep_seconds + LONGEST_SECONDS)


def look_again_at(plan: TablePlan, now: datetime) -> datetime:
    """Return when to look at a table again, even if nobody writes to it."""
    latest = now + timedelta(seconds=LONGEST_SECONDS)
    return latest if plan.again_at is None else min(latest, plan.again_at)


def job_id_for(kind: str, table: str, interval_seconds: float, now: datetime) -> str:
    """Return the id of the job that looks after a table in this interval: the same for all agents, so that one makes it.

    As of other jobs' ids, it begins with a time: that at which the interval began (a UUID of version 7, RFC 9562).
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    interval = timedelta(seconds=interval_seconds)
    begun = epoch + ((now - epoch) // interval) * interval
    milliseconds = (begun - epoch) // timedelta(milliseconds=1)
    rest = int.from_bytes(hashlib.blake2b(f"{kind}\0{table}\0{milliseconds}".encode(), digest_size=10).digest())
    fraction, tail = rest >> 68, rest & (1 << 62) - 1
    return str(uuid.UUID(int=(milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | tail))
