"""Where a block of a query is cut so that its calls can be made in large batches: one rule a file, tried in this order.

A rule looks at a block and the calls that could be made now, and says where to cut; it changes nothing. Each is tested by
pairs of files: a query, and its plan.
"""

from __future__ import annotations

from lancegpu_sql.sql.rules.before_subqueries import before_subqueries
from lancegpu_sql.sql.rules.filter_groups import filter_groups
from lancegpu_sql.sql.rules.filter_rows import filter_rows
from lancegpu_sql.sql.rules.filter_windows import filter_windows
from lancegpu_sql.sql.rules.group_rows import group_rows
from lancegpu_sql.sql.rules.join_keys import join_keys
from lancegpu_sql.sql.rules.join_sides import join_sides
from lancegpu_sql.sql.rules.last_rows import last_rows
from lancegpu_sql.sql.rules.order_rows import order_rows
from lancegpu_sql.sql.rules.push_filters import push_filters
from lancegpu_sql.sql.rules.stored_below import Below, Computed, stored_below
from lancegpu_sql.sql.rules.stored_columns import stored_columns
from lancegpu_sql.sql.rules.window_rows import window_rows

RULES = (filter_rows, before_subqueries, group_rows, filter_groups, window_rows, filter_windows, order_rows, last_rows)

__all__ = ["RULES", "Below", "Computed", "join_keys", "join_sides", "push_filters", "stored_below", "stored_columns"]
