"""How many rows at once fit into the memory of each Function's workers: what was learnt, kept for the next job."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from lancegpu_sql.errors import CatalogError, FunctionNotFound
from lancegpu_sql.workers.calls import FunctionLoad

_log = logging.getLogger("lancegpu_sql.workers")


class BatchSizeStore(Protocol):
    """Keeps, for each version of a Function and each GPU class, how many rows fit; None stands for CPU workers."""

    def fits_rows(self, name: str, version: int, gpu_class: str | None) -> int | None:
        """Return the number of rows; None where nothing is kept."""

    def keep_fits_rows(self, name: str, version: int, gpu_class: str | None, rows: int) -> None:
        """Keep a number of rows."""


class BatchSizes:
    """The most rows of one call, where more once ran out of memory. Safe for use by many threads.

    Parameters
    ----------
    store
        Where what was learnt is kept; None keeps it as long as this lives.
    """

    def __init__(self, store: BatchSizeStore | None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._learnt: dict[tuple[str, int, str | None], int] = {}

    def fits_rows(self, load: FunctionLoad, gpu_class: str | None) -> int | None:
        """Return how many rows fit; None where nothing is known, and all may."""
        kept = self._kept(load, gpu_class)
        with self._lock:
            learnt = self._learnt.get((load.function, load.version, gpu_class))
        return min((rows for rows in (kept, learnt) if rows is not None), default=None)

    def keep(self, load: FunctionLoad, gpu_class: str | None, rows: int) -> None:
        """Note that more rows than these did not fit."""
        key = load.function, load.version, gpu_class
        with self._lock:
            self._learnt[key] = min(rows, self._learnt.get(key, rows))
        try:
            if self._store is not None:
                self._store.keep_fits_rows(*key, rows)
        except (CatalogError, FunctionNotFound) as exc:
            _log.warning("How many rows of %s fit into memory could not be kept: %s", load.function, exc)

    def _kept(self, load: FunctionLoad, gpu_class: str | None) -> int | None:
        try:
            return None if self._store is None else self._store.fits_rows(load.function, load.version, gpu_class)
        except (CatalogError, FunctionNotFound) as exc:
            _log.warning("How many rows of %s fit into memory could not be read: %s", load.function, exc)
            return None
