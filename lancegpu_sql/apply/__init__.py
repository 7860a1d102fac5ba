"""One Function over a stream of batches: how large calls and parts are, which worker gets which, what a failure means.

The sizes and the decisions are pure (`parts`, `sizing`, `batches`); `board` holds what is under way, `dealer` says who gets
which of it, and `slot` moves it. Nothing here knows of tables, jobs or SQL, and only `workers` knows how a worker is spoken
to.
"""

from lancegpu_sql.apply.batches import Computed, InputBatch, RowFailure
from lancegpu_sql.apply.calls import Calls, Pending
from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.retry import RetryPolicy
from lancegpu_sql.apply.run import apply
from lancegpu_sql.apply.watch import ApplyWatch, SilentWatch, WorkerTimings

__all__ = [
    "ApplyOptions",
    "ApplyWatch",
    "Calls",
    "Computed",
    "InputBatch",
    "Memo",
    "Pending",
    "RetryPolicy",
    "RowFailure",
    "SilentWatch",
    "WorkerTimings",
    "apply",
]
