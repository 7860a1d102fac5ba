"""Keeps a placement known as alive, and removes what placements have left that died."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from lancegpu_sql.errors import ClusterRefused, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.household import BEAT_SECONDS, PLACEMENT_LABEL, Household, placement_selector
from lancegpu_sql.placement.kubernetes.loop import Loop
from lancegpu_sql.placement.kubernetes.sender import Sender
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.kubernetes.watch import Backoff

_LAST_TRIES_SECONDS = 5.0


class Upkeep:
    """Shows that a placement lives from its first pod on; looks after what others have left all the while."""

    def __init__(
        self,
        cluster: Cluster,
        database: str,
        household: Household,
        sender: Sender,
        loop: Loop,
        seen_pods: Callable[[], tuple[PodView, ...]],
    ) -> None:
        self._cluster = cluster
        self._database = database
        self._household = household
        self._sender = sender
        self._loop = loop
        self._seen_pods = seen_pods
        self._beating = False

    def begin(self) -> None:
        """Note that this placement is about to have a pod; on the loop."""
        if not self._beating:
            self._beating = True
            self._loop.call_in(BEAT_SECONDS, "beat", self._beat)

    def close(self) -> None:
        """Remove what this placement has left in the cluster, its sign of life last."""
        until, backoff = time.monotonic() + _LAST_TRIES_SECONDS, Backoff()
        while self._beating:
            try:
                self._remove(self._household.placement, templates=self._sender.has_templates)
                return
            except ClusterUnreachable as exc:
                pause = backoff.after(exc)
                if time.monotonic() + pause >= until:
                    return  # the next process of this database finds it
                time.sleep(pause)
            except PlacementError:
                return

    def look_for_leftovers(self) -> None:
        """Remove what placements have left that died, whose jobs ask for workers of their own; on the loop."""
        seen = {view.labels.get(PLACEMENT_LABEL, "") for view in self._seen_pods()}
        others = (seen | self._household.others) - {"", self._household.placement}
        if others:
            self._sender.submit(partial(self._clear_away, others))
            self._loop.call_in(BEAT_SECONDS, "leftovers", self.look_for_leftovers)

    def _beat(self) -> None:
        self._sender.submit(self._household.beat)
        self._loop.call_in(BEAT_SECONDS, "beat", self._beat)
        self.look_for_leftovers()

    def _clear_away(self, placements: set[str]) -> None:
        for placement in self._household.dead(placements):
            self._remove(placement, templates=True)

    def _remove(self, placement: str, *, templates: bool) -> None:
        what = placement_selector(self._database, placement)
        for kind in ("Pod", "Secret"):
            self._cluster.delete_all(kind, what)
        if templates:
            # A cluster may know no such things; and without the right to remove them, the rest is to be removed all the same.
            with suppress(ClusterRefused):
                self._cluster.delete_all("ResourceClaimTemplate", what)
        self._household.leave(placement)
