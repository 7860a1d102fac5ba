"""Plans of queries that are run again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from lancegpu_sql.sql.stages import QueryPlan

_MOST = 256


class Plans:
    """The plans made last, by all that they were made of. Safe for use by several threads."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, QueryPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], QueryPlan], may_keep: Callable[[], bool]) -> QueryPlan:
        """Return a plan; made, if it is not known, and kept where it may be."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
        made = make()
        if not may_keep():
            return made
        with self._lock:
            self._plans[key] = made
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)
        return made
