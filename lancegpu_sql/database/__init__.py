"""What a user holds: `connect`, and the handles it leads to: a database, its tables, its jobs.

Nothing is decided here. A handle turns a call into one of a room below, and shows long work while it runs.
"""

from __future__ import annotations

from lancegpu_sql.database.connect import connect
from lancegpu_sql.database.database import Database
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.merge_insert import MergeInsert
from lancegpu_sql.database.table import Table
from lancegpu_sql.database.view import MaterializedView

__all__ = ["Database", "JobHandle", "MaterializedView", "MergeInsert", "Table", "connect"]
