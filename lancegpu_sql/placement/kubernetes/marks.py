"""What a worker's pod says of itself to people and to autoscalers: for whom it works, and whether it works at all."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.errors import PlacementError
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.manifest import disruption_annotations
from lancegpu_sql.placement.kubernetes.names import OWNER_LABEL, job_labels
from lancegpu_sql.placement.pod_fields import OWN_PREFIX

ASKED_LABEL = f"{OWN_PREFIX}asked-at"
"""How old the request is that a pod is for: processes must agree who comes first."""


IDLE_LABEL = f"{OWN_PREFIX}idle"
"""`true` on a pod whose worker no job uses: other processes that must choose who gives way choose it first."""


def asked_text(asked_at: float) -> str:
    """Return a time as a label has it."""
    return f"{max(asked_at, 0.0):.6f}"


@dataclass(frozen=True)
class Mark:
    """What is said: the job, its owner in words, the age of the request (seconds since the epoch), and whether it computes."""

    job_id: str
    owner: str
    asked_at: float
    busy: bool = True


class Marks:
    """Keeps one pod's labels and annotations at what was last wanted of them; used by several threads.

    Parameters
    ----------
    made_with
        What the pod says from the start.
    kept
        Annotations that an operator has set, which are left alone.
    """

    def __init__(self, made_with: Mark | None = None, kept: Iterable[str] = ()) -> None:
        self.wanted = self._said = made_with
        self._kept = frozenset(kept)
        self._sending = threading.Lock()

    def send(self, cluster: Cluster, pod: str) -> None:
        """Tell the cluster, unless it knows. One call after another: the last one must be the last word."""
        with self._sending:
            wanted = self.wanted
            if wanted is None or wanted == self._said:
                return
            try:
                cluster.patch("Pod", pod, self.change(wanted))
            except PlacementError:
                self._said = None  # it may have been heard, or not
                raise
            self._said = wanted

    def change(self, mark: Mark) -> dict[str, Any]:
        """Return the change of a pod that makes it say so."""
        told = {OWNER_LABEL: mark.owner, **disruption_annotations(busy=mark.busy)}
        annotations = {key: value for key, value in told.items() if key not in self._kept}
        labels = {
            **job_labels(mark.job_id, mark.owner),
            ASKED_LABEL: asked_text(mark.asked_at),
            IDLE_LABEL: None if mark.busy else "true",
        }
        return {"metadata": {"labels": labels, "annotations": annotations}}


def annotations_of(gpu_class: GpuClass | None) -> frozenset[str]:
    """Return the annotations that a class sets on its pods."""
    if gpu_class is None:
        return frozenset()
    overridden: Any = gpu_class.pod_overrides.get("metadata", {})
    return frozenset(gpu_class.annotations) | frozenset(overridden.get("annotations") or ())
