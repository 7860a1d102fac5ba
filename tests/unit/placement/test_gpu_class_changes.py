"""What becomes of GPU classes, in words."""

from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices, Toleration
from lancegpu_sql.placement.gpu_class_changes import changes


def test_a_difference_is_told_class_by_class() -> None:
    old = (GpuClass(name="a"), GpuClass(name="b", max_workers=1), GpuClass(name="c"))
    new = (GpuClass(name="c"), GpuClass(name="b", max_workers=2), GpuClass(name="d"))
    assert changes(old, new) == ("a: removed", "b: max_workers: 1 → 2", "d: added")


def test_the_order_of_classes_is_no_difference() -> None:
    classes = (GpuClass(name="a"), GpuClass(name="b"))
    assert changes(classes, classes[::-1]) == ()


TOLERATION = Toleration(key="gpu", operator="Exists", effect="NoSchedule")
CHANGED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"local": LocalDevices(simulated=2)},
        {"local": LocalDevices(devices="auto")},
        "local: 2 simulated devices → all devices of this machine",
    ),
    ({"local": LocalDevices(simulated=1)}, {}, "local: 1 simulated device → no devices here"),
    (
        {"local": LocalDevices(devices=(0, 1))},
        {"local": LocalDevices(devices=(2,))},
        "local: devices 0, 1 of this machine → devices 2 of this machine",
    ),
    ({"gpu_memory_bytes": "24GiB"}, {"gpu_memory_bytes": "80GB"}, "gpu_memory_bytes: 24GiB → 80GB"),
    ({"gpu_memory_bytes": 1}, {}, "gpu_memory_bytes: 1 bytes → none"),
    ({}, {"max_gpu_count_per_worker": 2}, "max_gpu_count_per_worker: no limit → 2"),
    ({}, {"worker_idle_seconds": 5.0}, "worker_idle_seconds: as the setting says → 5.0"),
    ({"node_selector": {"gpu": "l4"}}, {}, "node_selector: gpu=l4 → none"),
    ({}, {"tolerations": (TOLERATION,)}, "tolerations: none → key=gpu, operator=Exists, effect=NoSchedule"),
]


@pytest.mark.parametrize(("old", "new", "said"), CHANGED)
def test_a_changed_key_is_said_as_an_operator_says_it(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    assert changes([GpuClass(name="a", **old)], [GpuClass(name="a", **new)]) == (f"a: {said}",)
