"""Mishaps on demand: what a pod's annotation asks the node to pretend."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

SIMULATE = "test-cluster/simulate"


class Simulation(StrEnum):
    """The annotation's values; it may be put on a pod that runs, and taken away again."""

    NONE = ""
    OUT_OF_MEMORY = "out-of-memory"  # the containers are killed, and told to be OOMKilled
    EVICTION = "eviction"  # the node is short of memory: the pod fails, Evicted
    ADMISSION_ERROR = "admission-error"  # the device plugin fails: UnexpectedAdmissionError (from the start only)
    IMAGE_ERROR = "image-error"  # the image cannot be pulled as long as this stands there
    CREATING = "creating"  # the containers are being created as long as this stands there


NOT_STARTED: dict[Simulation, Callable[[str], tuple[str, str]]] = {
    Simulation.IMAGE_ERROR: lambda image: (
        "ImagePullBackOff",
        f'Back-off pulling image "{image}": ErrImagePull: failed to pull and unpack image "{image}": not found',
    ),
    Simulation.CREATING: lambda image: ("ContainerCreating", ""),
}
