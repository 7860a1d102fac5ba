"""What an autoscaler has said of a pod."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from lancegpu_sql.placement.kubernetes.case import Case

_BELIEVED_FOR = timedelta(minutes=20)
"""A node that an autoscaler asked its cloud for comes in a few minutes, or not at all."""

_ADDS = ("TriggeredScaleUp", "Nominated")
_REFUSES = ("NotTriggerScaleUp",)


class Scaling(StrEnum):
    """Whether a node is on its way."""

    ADDING = "adding"
    REFUSED = "refused"
    SILENT = "silent"
    ABSENT = "absent"


def scaling_of(case: Case) -> Scaling:
    """Return what the newest event of an autoscaler says; ``ABSENT`` where none is to be seen."""
    for event in case.cluster.events_of(case.pod):
        if event.reason in _REFUSES:
            return Scaling.REFUSED
        if event.reason in _ADDS and (event.at is None or case.now - event.at < _BELIEVED_FOR):
            return Scaling.ADDING
    return Scaling.SILENT if case.cluster.has_autoscaler or not case.can_read("events") else Scaling.ABSENT
