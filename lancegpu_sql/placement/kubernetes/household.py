"""What a database owns in a cluster: one object that all its pods and Secrets belong to, and a sign of life of each
placement that made some."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.errors import ClusterRefused
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.names import database_labels, dns_label, label_value
from lancegpu_sql.placement.pod_fields import OWN_PREFIX

PLACEMENT_LABEL = f"{OWN_PREFIX}placement"

BEAT_SECONDS = 15.0
"""How often a placement shows that it lives: one call, for all its pods together."""

DEAD_AFTER_SECONDS = 4 * BEAT_SECONDS


@dataclass(frozen=True)
class _Seen:
    beat: str
    at: float


class Household:
    """The ConfigMap of a database, shared by all processes that use it.

    Each placement keeps an entry there while it has pods. Clocks are never compared: an entry is dead when its process
    is known to be, or when it has not changed for a minute before our eyes.
    """

    def __init__(self, cluster: Cluster, database: str) -> None:
        self._cluster = cluster
        self._database = database
        self._lock = threading.Lock()
        self._owner: Mapping[str, Any] | None = None
        self._seen: dict[str, _Seen] = {}
        self._others: frozenset[str] = frozenset()
        self.placement = uuid.uuid4().hex[:16]

    @property
    def name(self) -> str:
        """The ConfigMap's name."""
        return dns_label("lancegpu", self._database)

    @property
    def labels(self) -> dict[str, str]:
        """What everything that this placement makes carries."""
        return {**database_labels(self._database), PLACEMENT_LABEL: self.placement}

    @property
    def others(self) -> frozenset[str]:
        """The placements that had an entry beside this one's when it last was written."""
        return self._others

    def owner(self) -> Mapping[str, Any]:
        """Return the object that owns all, made if need be; this placement has its entry in it."""
        with self._lock:
            if self._owner is None:
                self._owner = self._make()
            return self._owner

    def beat(self) -> None:
        """Show that this placement lives."""
        with self._lock:
            found = self._cluster.patch("ConfigMap", self.name, {"data": self._entry()})
            if found is None:
                self._owner = None  # somebody has removed it, and all pods with it
            self._note(found or {})

    def leave(self, placement: str | None = None) -> None:
        """Take out an entry: one's own, or that of a dead one."""
        self._cluster.patch("ConfigMap", self.name, {"data": {placement or self.placement: None}})

    def dead(self, placements: set[str]) -> set[str]:
        """Return those of other placements that are known to be dead by now."""
        found = self._cluster.get("ConfigMap", self.name) or {}
        entries: Mapping[str, str] = found.get("data") or {}
        now = time.monotonic()
        return {one for one in placements - {self.placement} if self._is_dead(one, entries.get(one), now)}

    def _is_dead(self, placement: str, entry: str | None, now: float) -> bool:
        if entry is None:
            return True
        seen = self._seen.get(placement)
        if seen is None or seen.beat != entry:
            self._seen[placement] = seen = _Seen(entry, now)
        return _process_of(entry) is False or now - seen.at >= DEAD_AFTER_SECONDS

    def _make(self) -> Mapping[str, Any]:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "labels": database_labels(self._database),
                "annotations": {f"{OWN_PREFIX}database": self._database},
            },
            "data": self._entry(),
        }
        made = None
        while made is None:
            try:
                made = self._cluster.create("ConfigMap", body)
            except ClusterRefused as exc:
                if exc.facts["status"] != 409:
                    raise
                made = self._cluster.patch("ConfigMap", self.name, {"data": self._entry()})
        self._note(made)
        # As an owner reference has them.
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": self.name, "uid": made["metadata"]["uid"]}

    def _note(self, found: Mapping[str, Any]) -> None:
        self._others = frozenset(found.get("data") or {}) - {self.placement}

    def _entry(self) -> dict[str, str]:
        process = ProcessIdentity.current().model_dump(mode="json")
        return {self.placement: json.dumps({"beat": uuid.uuid4().hex, "process": process})}


def placement_selector(database: str, placement: str) -> str:
    """Return the label selector of all that a placement has made."""
    labels = {**database_labels(database), PLACEMENT_LABEL: label_value(placement)}
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _process_of(entry: str) -> bool | None:
    """Return whether the process of an entry lives, None where that cannot be told from here."""
    try:
        return ProcessIdentity.model_validate(json.loads(entry)["process"]).is_alive()
    except (ValueError, KeyError, TypeError):
        return None
