"""Values that the readings of one result share."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.query.bound import name_called
from lancegpu_sql.query.functions import OnError

CallKey = tuple[str, str, OnError]
"""A Function's version by its digest, what its class is made with, and what becomes of a row that fails."""


def call_key(version: FunctionVersion, on_error: OnError) -> CallKey:
    """What calls have in common whose values are the same for equal arguments."""
    return version.digest, name_called(version), on_error


class Memos:
    """The values that readings of one result share: equal arguments are computed once, whoever reads.

    They are lent to one reading at a time, for another one could not go on with what that one leaves undone.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._memos: dict[CallKey, Memo] = {}
        self._lent: set[CallKey] = set()
        self._lock = threading.Lock()

    def lend(self, version: FunctionVersion, on_error: OnError) -> Memo | None:
        """The values of one Function, new ones while others are lent; None where it is asked anew for each row."""
        if not version.deterministic or not self._limit_bytes:
            return None
        key = call_key(version, on_error)
        with self._lock:
            if key in self._lent:
                return Memo(self._limit_bytes)
            self._lent.add(key)
            return self._memos.setdefault(key, Memo(self._limit_bytes))

    def take_back(self, lent: Iterable[Memo]) -> None:
        """End what was lent."""
        with self._lock:
            known = {id(memo): key for key, memo in self._memos.items()}
            self._lent -= {known[id(memo)] for memo in lent if id(memo) in known}
