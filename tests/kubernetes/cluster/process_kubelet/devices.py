"""The devices of a node: what a device plugin advertises, and who has which."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]
Devices = dict[str, list[str]]


class NoDevices(Exception):
    """A pod was bound here, but its devices are not free: a kubelet refuses such a pod."""


class DevicePool:
    """Numbers devices by resource from zero, and hands out the lowest that are free."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._free = {resource: [str(number) for number in range(count)] for resource, count in counts.items()}
        self._lock = threading.Lock()

    def take(self, pod: Document) -> Devices:
        """The devices that a pod's containers ask for, all or none."""
        with self._lock:
            return self._take({resource: count for resource, count in _wanted(pod).items() if resource in self._free})

    def give_back(self, devices: Devices) -> None:
        """Free what `take` gave; the dictionary is empty afterwards, so that twice does no harm."""
        with self._lock:
            while devices:
                resource, numbers = devices.popitem()
                self._free[resource] = sorted([*self._free[resource], *numbers], key=int)

    def _take(self, wanted: Mapping[str, int]) -> Devices:
        for resource, count in wanted.items():
            if count > len(self._free[resource]):
                raise NoDevices(
                    f"Allocate failed due to requested number of devices unavailable for {resource}. "
                    f"Requested: {count}, Available: {len(self._free[resource])}, which is unexpected"
                )
        taken: Devices = {}
        for resource, count in wanted.items():
            free = self._free[resource]
            taken[resource], self._free[resource] = free[:count], free[count:]
        return taken


def variables(devices: Devices) -> dict[str, str]:
    """What device plugins tell a container: ``NVIDIA_VISIBLE_DEVICES`` for all that begins with nvidia.com/, and its like."""
    visible: dict[str, list[str]] = {}
    for resource, numbers in devices.items():
        vendor = resource.split(".", 1)[0].upper().replace("-", "_")
        visible.setdefault(f"{vendor}_VISIBLE_DEVICES", []).extend(numbers)
    return {name: ",".join(numbers) for name, numbers in visible.items()}


def is_device(resource: str) -> bool:
    """Whether a resource is an extended one, that nodes have in whole numbers."""
    return "/" in resource and not resource.startswith("hugepages-")


def _wanted(pod: Document) -> dict[str, int]:
    containers: Iterable[Document] = pod["spec"]["containers"]
    wanted: dict[str, int] = {}
    for container in containers:
        for resource, count in container.get("resources", {}).get("limits", {}).items():
            if is_device(resource):
                wanted[resource] = wanted.get(resource, 0) + int(count)
    return wanted
