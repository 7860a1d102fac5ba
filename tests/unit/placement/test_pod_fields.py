from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from pods import FOLDER
from pydantic import ValidationError
from suites import TESTS

from lancegpu_sql.errors import InvalidGpuClass
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.gpu_class_file import parse_gpu_classes

APPARMOR = "container.apparmor.security.beta.kubernetes.io"


def refusal(keys: dict[str, Any]) -> InvalidGpuClass:
    """What is said to a class with these keys; each of them has a line of its own."""
    lines = [
        f"  {key}: {yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]}"
        for key, value in keys.items()
    ]
    with pytest.raises(InvalidGpuClass) as caught:
        parse_gpu_classes("\n".join(["gpu_classes:", "- name: l4", *lines, ""]), "classes.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"resource_name": "gpu"}, "resource_name"),
        ({"resource_name": "cpu"}, "resource_name"),
        ({"node_selector": {"bad key": "x"}}, "node_selector"),
        ({"node_selector": {"gpu": "no blanks"}}, "node_selector"),
        ({"affinity": {"nodeAffinty": {}}}, "affinity"),
        ({"runtime_class_name": "No_Such"}, "runtime_class_name"),
        ({"image": "good.io/x@evil"}, "is no image"),
        ({"allowed_images": ["good.io"]}, "write 'good.io/'"),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "set by the placement"),
        ({"env": {"LANCEGPU_WORKER_TOKEN": "x"}}, "set by the placement"),
        ({"env": {"A-B": "x"}}, "cannot name an environment variable"),
        ({"env": {"A": 1}}, "env.A"),
        ({"labels": {"lancegpu.dev/job": "x"}}, "sets these itself"),
        ({"labels": {"app.kubernetes.io/managed-by": "x"}}, "sets these itself"),
        ({"annotations": {"lancegpu.dev/x": "x"}}, "sets these itself"),
        ({"volumes": [{"name": "a", "mount_path": "/a", "source": {"hostPath": {"path": "/"}}}]}, "restricted"),
        ({"volumes": [{"name": "a", "mount_path": "/a", "source": {}}]}, "one key"),
        ({"volumes": [{"name": "a", "mount_path": "a", "source": {"emptyDir": {}}}]}, "mount_path"),
        ({"volumes": [{"name": "shm", "mount_path": "/a", "source": {"emptyDir": {}}}]}, "has its own"),
        ({"volumes": [{"name": "a", "mount_path": "/tmp/", "source": {"emptyDir": {}}}]}, "has its own"),
        ({"volumes": [{"name": "a", "mount_path": f"/{n}", "source": {"emptyDir": {}}} for n in "ab"]}, "name a stands twice"),
        ({"volumes": [{"name": "a", "path": "/a", "source": {"emptyDir": {}}}]}, "valid keys: name, mount_path, read_only"),
        ({"device_claim": {}}, "give either device_class or first_available"),
        ({"device_claim": {"class": "x"}}, "valid keys: device_class, selectors, count, first_available"),
        ({"device_claim": {"first_available": [{"device_clas": "x"}]}}, "valid keys: device_class, selectors, count"),
        ({"device_claim": {"first_available": [{"device_class": "x"}], "count": 2}}, "belong to each alternative"),
        ({"device_claim": {"device_class": "x"}, "resource_name": "nvidia.com/gpu"}, "give either resource_name"),
        ({"sharing": "sometimes"}, "sharing"),
        ({"sharing": "mig", "max_gpu_count_per_worker": 2}, "max_gpu_count_per_worker is 1"),
        ({"cpu": 0}, "cpu"),
        ({"cpu": "4"}, "cpu"),
        ({"memory_bytes": "24Gi"}, "a text such as '24GiB'"),
        ({"memory_bytes": 1, "shared_memory_bytes": 2}, "cannot be more"),
        ({"pod_overrides": {"spec": {"hostNetwork": True}}}, "spec.hostNetwork must not be set"),
        ({"pod_overrides": {"spec": {"hostPID": True}}}, "allow_insecure_overrides: true"),
        ({"pod_overrides": {"spec": "all"}}, "no part of a pod"),
        ({"pod_overrides": {"spec": None}}, "no part of a pod"),
        ({"pod_overrides": {"status": {}}}, "pod_overrides"),
        ({"pod_overrides": {"metadata": {"name": "mine"}}}, "only labels and annotations"),
        ({"pod_overrides": {"metadata": {"ownerReferences": []}}}, "only labels and annotations"),
        ({"pod_overrides": {"metadata": {"labels": None}}}, "a mapping of names"),
        ({"pod_overrides": {"metadata": {"labels": {"lancegpu.dev/job": None}}}}, "sets these itself"),
        ({"pod_overrides": {"spec": {"containers": [{"name": ["worker"]}]}}}, "no part of a pod"),
        ({"pod_overrides": {"spec": "all"}, "allow_insecure_overrides": True}, "no part of a pod"),
        ({"annotations": {f"{APPARMOR}/worker": "unconfined"}}, "allow_insecure_overrides"),
        ({"pod_overrides": {"metadata": {"annotations": {f"{APPARMOR}/worker": "unconfined"}}}}, "must not be set"),
        ({"cpu": float("inf")}, "endless"),
        ({"worker_idle_seconds": -1}, "worker_idle_seconds: must be 0 or more"),
        ({"worker_idle_seconds": "60"}, "worker_idle_seconds: must be a number"),
    ],
)  # fmt: skip
def test_a_mistake_in_what_shapes_pods_is_told_with_its_line(keys: dict[str, Any], words: str) -> None:
    error = refusal(keys)
    assert words in error.message
    assert 2 <= error.facts["line"] <= 2 + len(keys)


@pytest.mark.parametrize("key", ["anything_else", "preemptible"])
def test_a_key_that_nothing_acts_on_is_not_accepted(key: str) -> None:
    assert f"unknown key '{key}'" in refusal({key: 1}).message


def test_shared_devices_come_one_to_a_worker() -> None:
    assert GpuClass(name="slice", sharing="time_sliced").max_gpu_count_per_worker == 1


def test_security_goes_only_where_the_operator_says_so() -> None:
    overrides = {"spec": {"hostIPC": True}}
    with pytest.raises(ValidationError):
        GpuClass(name="l4", pod_overrides=overrides)
    assert GpuClass(name="l4", pod_overrides=overrides, allow_insecure_overrides=True).pod_overrides == overrides


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.asked.yaml")), ids=lambda path: path.name)
def test_a_class_comes_back_from_its_spec(path: Any) -> None:
    spec = yaml.safe_load(path.read_text()).get("gpu_class", {"name": "none"})
    one = GpuClass.from_spec(spec)
    assert GpuClass.from_spec(one.spec()) == one


def test_docs_tell_of_every_key() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", (TESTS.parent / "docs" / "gpu-classes.md").read_text(), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([a-z_]+)[^`]*`", row)}
    assert told == set(GpuClass.model_fields)
