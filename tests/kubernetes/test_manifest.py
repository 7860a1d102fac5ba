"""What the placement would send is what the API server takes, in a namespace that enforces the restricted standard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.api import Api, ApiError, path_of
from cluster.kwok import AddKwokNodes
from cluster.pods import running
from cluster.running import RunningCluster
from pods import DATABASE, NAMES, case, request_for

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.manifest import worker_secret
from lancegpu_sql.placement.kubernetes.names import worker_labels

DRIVER = "gpu.example.com"


@pytest.fixture
def api(cluster: RunningCluster, namespace: str) -> Iterator[Api]:
    """The API server of a cluster that has all objects which the pods name."""
    client = cluster.client()
    cluster_wide: list[dict[str, Any]] = [
        {"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "runc"},
        {"kind": "PriorityClass", "metadata": {"name": "batch"}, "value": 1},
        {"kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {}},
    ]
    # A cluster that is not ours may have them already, and keeps its own.
    made = [one for one in cluster_wide if client.get(one["kind"], one["metadata"]["name"]) is None]
    for one in made:
        client.create(one)
    for name in ("gpu-worker", "cpu-worker"):
        client.create({"kind": "ServiceAccount", "metadata": {"name": name}}, namespace)
    yield client
    for one in made:
        client.delete(one["kind"], one["metadata"]["name"])


def tried(api: Api, document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """What the server would make of an object; a field that it does not know is an error."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return dict(json.loads(api.raw("POST", path_of(document["kind"], namespace), document, query=query)))


@pytest.mark.parametrize("name", NAMES)
def test_the_server_takes_every_pod_as_it_is(api: Api, namespace: str, name: str):
    for document in case(name, namespace=namespace).objects():
        assert tried(api, document, namespace)["metadata"]["name"] == document["metadata"]["name"]


def test_the_server_takes_the_secret(api: Api, namespace: str):
    labels = worker_labels(request_for(), DATABASE)
    secret = worker_secret(name="s", token="t", certificate_pem="c", key_pem="k", owner=None, labels=labels)
    assert set(tried(api, secret, namespace)["data"]) == {"token", "certificate", "key"}


def test_the_server_knows_what_a_strict_one_must_refuse(api: Api, namespace: str):
    pod = case("plain", namespace=namespace).pod()
    pod["spec"]["gpus"] = 1
    with pytest.raises(ApiError, match="unknown field"):
        tried(api, pod, namespace)


def test_the_standard_refuses_what_an_operator_may_let_pass(api: Api, namespace: str):
    gpu_class = GpuClass(name="l4", allow_insecure_overrides=True, pod_overrides={"spec": {"hostNetwork": True}})
    one = case("plain", namespace=namespace)
    loose = type(one)(one.name, request_for(gpu_class), one.config, None)
    with pytest.raises(ApiError, match="violates PodSecurity"):
        tried(api, loose.pod(), namespace)


def test_a_claim_gets_the_devices_that_it_asks_for(api: Api, namespace: str, kwok_node: AddKwokNodes):
    kwok_node("claims-1")
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": "A100"}}} for n in range(6)]
    pool = {"name": "claims-1", "generation": 1, "resourceSliceCount": 1}
    api.create(
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "claims-1"},
            "spec": {"driver": DRIVER, "nodeName": "claims-1", "pool": pool, "devices": devices},
        }
    )
    template, pod = case("claim", namespace=namespace).objects()
    api.create(template, namespace)
    api.create(pod, namespace)
    api.until("Pod", pod["metadata"]["name"], running, namespace)
    (claim,) = api.list("ResourceClaim", namespace)
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 6
    assert claim["metadata"]["labels"]["lancegpu.dev/class"] == "big_mig"
    api.delete("ResourceSlice", "claims-1")
