from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"namespace": "My Team"}, "cannot name a namespace"),
        ({"namespace": ""}, "cannot name a namespace"),
        ({"image": "good.io/Case"}, "is no image"),
        ({"worker_port": 80}, "from 1024 to 65535"),
        ({"orphan_seconds": 0}, "orphan_seconds is more than 0"),
        ({"query_burst": -1}, "query_burst is more than 0"),
        ({"cpu_rungs": ()}, "the CPU ladder is empty"),
        ({"in_cluster": True, "context": "home"}, "leave context and kubeconfig out"),
    ],
)
def test_what_cannot_be_is_refused_at_once(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPlacement, match=says):
        KubernetesConfig(**{"namespace": "ml", **wrong})


def test_a_namespace_is_all_that_must_be_given() -> None:
    assert KubernetesConfig("ml").worker_port == 7861


def test_cpu_sizes_grow() -> None:
    sizes = [(rung.cpus, rung.memory_bytes) for rung in KubernetesConfig("ml").cpu_rungs]
    assert sizes == sorted(sizes)
