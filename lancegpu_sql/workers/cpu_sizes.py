"""How large the CPU workers of each Function are: what it has shown to need, kept for the next pool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from lancegpu_sql.errors import CatalogError, FunctionNotFound
from lancegpu_sql.placement.cpu_ladder import CpuRung, rung_named
from lancegpu_sql.workers.calls import FunctionLoad

_log = logging.getLogger("lancegpu_sql.workers")


class RungStore(Protocol):
    """Keeps, for each version of a Function, the rung from which its workers start."""

    def cpu_rung(self, name: str, version: int) -> str | None:
        """Return the name of the rung; None where nothing is kept."""

    def keep_cpu_rung(self, name: str, version: int, rung: str) -> None:
        """Keep the name of a rung."""


class CpuSizes:
    """The rung of the ladder on which each Function's CPU workers start. Safe for use by many threads.

    Parameters
    ----------
    ladder
        The sizes there are, the smallest first; none where workers share a machine.
    store
        Where what was learnt is kept; None keeps it as long as this lives.
    """

    def __init__(self, ladder: Sequence[CpuRung], store: RungStore | None) -> None:
        self._ladder = tuple(ladder)
        self._store = store
        self._lock = threading.Lock()
        self._learnt: dict[tuple[str, int], str] = {}

    def rung_of(self, load: FunctionLoad) -> str | None:
        """Return the rung on which the next worker of a Function starts; None where there is no ladder."""
        if not self._ladder:
            return None
        key = load.function, load.version
        kept = self._kept(*key)
        with self._lock:
            names = [rung.name for rung in self._ladder]
            known = [name for name in (kept, self._learnt.get(key)) if name in names]
            return max(known, key=names.index, default=names[0])

    def outgrow(self, load: FunctionLoad, rung: str | None) -> str | None:
        """Note that a worker of that rung was killed for memory.

        Returns, in words, what takes its place; None where there is nothing larger.
        """
        if not self._ladder:
            return None
        was = rung_named(self._ladder, rung)
        above = self._ladder[self._ladder.index(was) + 1 :]
        if not above:
            return None
        key = load.function, load.version
        # Another worker may have shown the same before.
        now = rung_named(self._ladder, self.rung_of(load))
        if now.memory_bytes <= was.memory_bytes:
            now = above[0]
            with self._lock:
                self._learnt[key] = now.name
            self._keep(*key, now.name)
        return f"a worker of {load.function} was killed for memory at {was}; the next one is {now}"

    def _kept(self, function: str, version: int) -> str | None:
        try:
            return None if self._store is None else self._store.cpu_rung(function, version)
        except (CatalogError, FunctionNotFound) as exc:
            _log.warning("What size workers of %s need could not be read: %s", function, exc)
            return None

    def _keep(self, function: str, version: int, rung: str) -> None:
        try:
            if self._store is not None:
                self._store.keep_cpu_rung(function, version, rung)
        except (CatalogError, FunctionNotFound) as exc:
            _log.warning("That workers of %s need the size %r could not be kept: %s", function, rung, exc)
