from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig, options_of
from lancegpu_sql.settings import Settings


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


def test_without_settings_a_placement_is_as_its_defaults_say() -> None:
    assert KubernetesConfig("ml", **options_of(Settings())) == KubernetesConfig("ml")


def test_settings_say_where_cpu_workers_run_and_how_patient_a_placement_is() -> None:
    settings = Settings(
        kubernetes_cpu_node_selector="pool=cpu, disk=fast",
        kubernetes_gpu_node_labels="pool-of-gpus",
        kubernetes_image_pull_grace_seconds=5,
    )
    config = KubernetesConfig("ml", **options_of(settings))
    assert config.cpu_node_selector == {"pool": "cpu", "disk": "fast"}
    assert (config.gpu_node_labels, config.image_pull_grace_seconds) == (("pool-of-gpus",), 5)


def test_a_text_that_is_no_label_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidPlacement, match=r"'gpu-free' is no label: .* as 'pool=cpu, a=b'"):
        options_of(Settings(kubernetes_cpu_node_selector="gpu-free"))
