"""Learns at once when a process of somebody else's dies, through the kernel's process descriptors."""

from __future__ import annotations

import os
from collections.abc import Collection

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.placement.watch import Action, WatchThread


class Vigil:
    """Watches a changing set of processes from a watch thread, on which alone it may be used."""

    def __init__(self, watch: WatchThread, on_death: Action) -> None:
        self._watch = watch
        self._on_death = on_death
        self._descriptors: dict[ProcessIdentity, int] = {}

    def keep_over(self, processes: Collection[ProcessIdentity]) -> bool:
        """Watch these processes and no others; tell whether all of them can be watched.

        The dead ones among them are left out: who asks the kernel again will not find them.
        """
        for identity in [known for known in self._descriptors if known not in processes]:
            self._drop(identity)
        watched = [self._is_watched(identity) for identity in processes]
        return all(watched)

    def _is_watched(self, identity: ProcessIdentity) -> bool:
        if identity in self._descriptors:
            return True
        if identity.is_alive() is None:
            return False  # another container's: its number means nothing here
        try:
            descriptor = os.pidfd_open(identity.pid)
        except OSError:
            self._watch.call(self._on_death)
            return True
        self._descriptors[identity] = descriptor
        if identity.is_alive():
            self._watch.watch(descriptor, lambda: self._mourn(identity))
        else:
            # It died before, and its number may be another's by now.
            os.close(self._descriptors.pop(identity))
            self._watch.call(self._on_death)
        return True

    def _mourn(self, identity: ProcessIdentity) -> None:
        self._drop(identity)
        self._on_death()

    def _drop(self, identity: ProcessIdentity) -> None:
        descriptor = self._descriptors.pop(identity)
        self._watch.unwatch(descriptor)
        os.close(descriptor)
