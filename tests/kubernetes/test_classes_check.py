"""What `lancegpu classes check` finds in a real cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster.kwok import AddKwokNodes
from cluster.running import RunningCluster

import lancegpu_sql as lg
from lancegpu_sql.cli import main

Check = Callable[..., dict[str, Any]]


@pytest.fixture
def check(
    cluster: RunningCluster,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Checks one class of a file that says so; the answer, with the exit status."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))

    def run(spec: str, *, image: str | None = "registry.example/worker:1", where: str = namespace) -> dict[str, Any]:
        (tmp_path / "classes.yaml").write_text(
            f"gpu_classes:\n  - {{name: l4, node_selector: {{pool: check}}{spec}}}\n"
        )
        lg.connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml").close()
        given = [] if image is None else ["--image", image]
        status = main(["--db", str(tmp_path / "db"), "classes", "check", "l4", "--namespace", where, "--json", *given])
        printed = capsys.readouterr()
        assert printed.out, printed.err
        return {**json.loads(printed.out)[0], "status": status}

    return run


def test_a_class_whose_nodes_have_room_can_be_used(check: Check, kwok_node: AddKwokNodes):
    kwok_node("check-1", "check-2", gpus=4, labels={"pool": "check"})
    found = check("")
    assert (found["usable"], found["admitted"], found["nodes"], found["devices"]) == (True, True, 2, 8)
    assert found["message"] == "a worker would start now: 8 GPUs are free"
    assert found["status"] == 0


def test_what_is_known_of_the_image_is_told(check: Check, cluster: RunningCluster, kwok_node: AddKwokNodes):
    kwok_node("check-1", "check-2", gpus=4, labels={"pool": "check"})
    has = {"images": [{"names": ["registry.example/worker:1"], "sizeBytes": 1}]}
    cluster.client().patch("Node", "check-1", {"status": has}, part="status")
    found = check(", image_pull_secrets: [nowhere]")
    assert found["image_words"].startswith("on 1 of 2 nodes already; image_pull_secrets names the Secret nowhere")
    assert (found["usable"], found["image_pullable"]) == (True, None)
    cluster.client().patch("Node", "check-2", {"status": has}, part="status")
    assert check(", image_pull_secrets: [nowhere]")["image_pullable"] is True


def test_a_class_without_nodes_cannot(check: Check):
    found = check("")
    assert (found["usable"], found["reason"], found["nodes"], found["status"]) == (False, "no_matching_node", 0, 1)


def test_nodes_that_do_not_offer_the_resource_are_told(check: Check, kwok_node: AddKwokNodes):
    kwok_node("check-1", gpus=1, labels={"pool": "check"})
    assert check(", resource_name: nvidia.com/mig-1g.10gb")["reason"] in {"resource_not_advertised", "node_starting"}


def test_a_taint_that_the_class_does_not_tolerate_is_told(check: Check, kwok_node: AddKwokNodes):
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    kwok_node("check-1", gpus=1, labels={"pool": "check"}, taints=[taint])
    found = check("")
    assert (found["usable"], found["reason"]) == (False, "untolerated_taint")
    assert "team=vision:NoSchedule" in found["message"]


def test_a_pod_that_the_namespace_does_not_admit_is_told(check: Check):
    found = check(", allow_insecure_overrides: true, pod_overrides: {spec: {hostNetwork: true}}")
    assert (found["usable"], found["admitted"]) == (False, False)
    assert "violates PodSecurity" in found["message"]


def test_what_the_class_names_and_the_cluster_lacks_is_told(check: Check):
    found = check(", service_account: nobody")
    assert (found["usable"], found["admitted"]) == (False, False)
    assert "ServiceAccount 'nobody'" in found["message"]


def test_a_full_quota_is_waited_for(check: Check, cluster: RunningCluster, namespace: str, kwok_node: AddKwokNodes):
    kwok_node("check-1", gpus=1, labels={"pool": "check"})
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    cluster.client().create(quota, namespace)
    cluster.client().until("ResourceQuota", "q", lambda one: one and one["status"].get("hard"), namespace)
    found = check("")
    assert (found["usable"], found["admitted"], found["reason"]) == (False, False, "quota")


def test_a_class_without_an_image_is_told(check: Check):
    found = check("", image=None)
    assert (found["usable"], found["admitted"], found["reason"]) == (False, None, "image")


def test_a_device_class_that_is_not_there_is_told(check: Check, kwok_node: AddKwokNodes):
    kwok_node("check-1", labels={"pool": "check"})
    found = check(", device_claim: {device_class: no-such.example.com}")
    assert (found["usable"], found["reason"]) == (False, "claim")
    assert "no DeviceClass no-such.example.com" in found["message"]


def test_nothing_is_made(check: Check, cluster: RunningCluster, namespace: str, kwok_node: AddKwokNodes):
    kwok_node("check-1", gpus=1, labels={"pool": "check"})
    check("")
    assert [cluster.client().list(kind, namespace) for kind in ("Pod", "Secret")] == [[], []]


def test_a_namespace_that_is_not_there_is_told(check: Check):
    found = check("", where="no-such-namespace")
    assert (found["usable"], found["admitted"]) == (False, False)
    assert "no-such-namespace" in found["message"]


def test_without_a_cluster_it_says_how_to_name_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lg.connect(tmp_path / "db").close()
    assert main(["--db", str(tmp_path / "db"), "classes", "check"]) == 1
    assert "--namespace" in capsys.readouterr().err
