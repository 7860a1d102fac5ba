"""Where workers run: GPU classes, the interface that every place for workers offers, and the places themselves.

A placement is asked for a worker and tells what becomes of the request, however long it waits for room. When a refresh
is due, what a worker computes and how batches reach it belong elsewhere. Sole user of NVIDIA's management library and of
YAML.
"""

from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices, Toleration
from lancegpu_sql.placement.gpu_class_file import load_gpu_classes
from lancegpu_sql.placement.interface import Placement, Ticket
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import (
    Lost,
    PlacementEvent,
    Preparing,
    Ready,
    Refused,
    Starting,
    Waiting,
    Wanted,
    WorkerRequest,
)

__all__ = [
    "GpuClass",
    "LocalDevices",
    "LocalPlacement",
    "Lost",
    "Placement",
    "PlacementEvent",
    "Preparing",
    "Ready",
    "Refused",
    "Starting",
    "Ticket",
    "Toleration",
    "Waiting",
    "Wanted",
    "WorkerRequest",
    "load_gpu_classes",
]
