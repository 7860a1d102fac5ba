"""What one placement claims in the host's ledger, kept true there through full disks and folders that vanish."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from lancegpu_sql.errors import StorageError
from lancegpu_sql.placement.leases import Claim
from lancegpu_sql.placement.ledger import Ledger


class OwnClaims:
    """The claims of one placement; usable from any thread.

    Only `enter` and `look` tell of a ledger that cannot be kept. What `change` and `leave` could not write, the next
    call writes.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._mine: dict[str, Claim] = {}
        self._gone: set[str] = set()
        self.seen: tuple[Claim, ...] = ()
        """All claims of the host as the latest call found them, oldest first."""

    def enter(self, claim: Claim) -> None:
        """Make a claim; raise StorageError, and make none, where the ledger cannot be kept."""
        with self._lock:
            self._mine[claim.id] = claim
            try:
                self._exchange()
            except StorageError:
                del self._mine[claim.id]
                self._gone.add(claim.id)  # it may have been written, and only its news not sent
                raise

    def change(self, claim_id: str, **updates: Any) -> None:
        """Say something new about a claim, if it still stands."""
        with self._lock:
            if claim_id in self._mine:
                self._mine[claim_id] = self._mine[claim_id].model_copy(update=updates)
                with suppress(StorageError):
                    self._exchange()

    def leave(self, claim_id: str) -> None:
        """Give a claim up, and its devices to whoever is next."""
        with self._lock:
            if self._mine.pop(claim_id, None) is not None:
                self._gone.add(claim_id)
                with suppress(StorageError):
                    self._exchange()

    def look(self) -> tuple[Claim, ...]:
        """Return all claims of the host, oldest first."""
        with self._lock:
            self._exchange()
            return self.seen

    @property
    def unwritten(self) -> bool:
        """Whether devices that were given up still stand in the ledger."""
        return bool(self._gone)

    def _exchange(self) -> None:
        self.seen = self._ledger.exchange(self._mine.values(), self._gone)
        self._gone.clear()
        self._mine = {claim.id: claim for claim in self.seen if claim.id in self._mine}
