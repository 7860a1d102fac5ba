"""Devices by Dynamic Resource Allocation, with whole jobs: ResourceSlices without a driver, allocated by the real scheduler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster.api import Api, Object
from cluster.pods import condition
from cluster.process_node import GPU, AddProcessNode
from cluster.running import RunningCluster
from two_jobs import GPU_CLASS, ROWS, MakeJobs, checked, shell, told

from lancegpu_sql.cli import main

Publish = Callable[..., None]


@pytest.fixture
def api(cluster: RunningCluster) -> Api:
    return cluster.client()


@pytest.fixture
def driver(namespace: str) -> str:
    """The name of a driver, and of the DeviceClass of its devices."""
    return f"{namespace}.example.com"


@pytest.fixture
def publish(api: Api, namespace: str, driver: str, process_node: AddProcessNode) -> Iterator[Publish]:
    """``publish(*models, …)``: a node whose devices are of these models, in a DeviceClass; again: what they are now."""
    pool = {"name": "claimed-1", "resourceSliceCount": 1}
    made: list[tuple[str, str]] = []

    def publish(*models: str, taints: tuple[Object, ...] = (), **of_class: Any) -> None:
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}, "taints": list(taints)}
            for number, model in enumerate(models)
        ]
        spec = {"driver": driver, "nodeName": "claimed-1", "devices": devices}
        if made:
            api.patch("ResourceSlice", driver, {"spec": {**spec, "pool": {**pool, "generation": 2}}})
            return
        process_node("claimed-1", labels={"pool": namespace})
        selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
        slices = {"metadata": {"name": driver}, "spec": {**spec, "pool": {**pool, "generation": 1}}}
        classes = {"metadata": {"name": driver}, "spec": {"selectors": [selector], **of_class}}
        for kind, document in (("ResourceSlice", slices), ("DeviceClass", classes)):
            api.create({"kind": kind, **document})
            made.append((kind, driver))

    yield publish
    for kind, name in made:
        api.delete(kind, name)


def model_is(driver: str, model: str) -> str:
    """A selector, in CEL."""
    return f"device.attributes['{driver}'].model == '{model}'"


def test_a_job_waits_for_the_device_that_another_has_and_goes_on_after_it(
    cluster: RunningCluster, driver: str, publish: Publish, make_jobs: MakeJobs, capsys: pytest.CaptureFixture[str]
):
    publish("A100")
    jobs = make_jobs(device_claim={"device_class": driver})
    first = jobs.hold()
    second = jobs.follow()
    waiting = told(second, lambda one: "allocated" in one.message)
    assert (waiting.reason, waiting.can_be_met) == ("claim", True)
    assert f"the only device of driver {driver} is allocated by job {first.id}" in waiting.message
    assert all(shell(cluster, line) for line in waiting.detail["kubectl"])
    assert main(["--db", jobs.database.uri, "why", second.id]) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"claimed-1 +no device for the claim +1 +1 +0 +0 +job {first.id} \(holding\): 1", shown), shown
    jobs.let_go()
    assert (first.wait(60).rows_assigned, second.wait(60).rows_assigned) == (ROWS, ROWS)


def test_a_claim_that_no_device_meets_is_told_and_the_job_starts_when_one_does(
    driver: str, publish: Publish, make_jobs: MakeJobs
):
    publish("L4")
    asked = model_is(driver, "A100")
    job = make_jobs(device_claim={"device_class": driver, "selectors": [asked]}).follow()
    waiting = told(job, lambda one: one.can_be_met is False)
    assert waiting.reason == "claim"
    assert f"has 1 device of driver {driver}, but none is as the claim's selectors ask ({asked})" in waiting.message
    publish("A100")
    assert job.wait(60).rows_assigned == ROWS


def test_of_several_ways_to_meet_a_claim_the_one_that_is_free_is_taken(
    driver: str, publish: Publish, make_jobs: MakeJobs
):
    publish("L4")
    ways = [{"device_class": driver, "selectors": [model_is(driver, model)]} for model in ("A100", "L4")]
    assert make_jobs(device_claim={"first_available": ways}).follow().wait(60).rows_assigned == ROWS


def test_a_device_that_is_tainted_has_failed_until_it_is_repaired(driver: str, publish: Publish, make_jobs: MakeJobs):
    publish("A100", taints=({"key": "example.com/unhealthy", "effect": "NoSchedule"},))
    job = make_jobs(device_claim={"device_class": driver}).follow()
    waiting = told(job, lambda one: one.reason == "device_failed")
    assert f"1 device of driver {driver} is tainted (example.com/unhealthy:NoSchedule)" in waiting.message
    publish("A100")
    assert job.wait(60).rows_assigned == ROWS


def test_a_worker_whose_device_is_tainted_leaves_and_its_job_goes_on_once_the_device_is_repaired(
    api: Api, namespace: str, driver: str, publish: Publish, make_jobs: MakeJobs
):
    publish("A100")
    jobs = make_jobs(device_claim={"device_class": driver})
    first = jobs.hold()
    (worker,) = api.list("Pod", namespace)
    publish("A100", taints=({"key": "example.com/unhealthy", "effect": "NoExecute"},))
    leaving = api.until(
        "Pod", worker["metadata"]["name"], lambda one: "deletionTimestamp" in one["metadata"], namespace
    )
    assert condition(leaving, "DisruptionTarget")["reason"] == "DeletionByDeviceTaintManager"
    jobs.let_go()
    told(first, lambda one: one.reason == "device_failed")
    publish("A100")
    assert first.wait(60).rows_assigned == ROWS


def test_devices_behind_the_name_of_a_resource_are_counted_by_their_slices(
    driver: str, publish: Publish, make_jobs: MakeJobs
):
    publish("A100", extendedResourceName=GPU)
    jobs = make_jobs(resource_name=GPU)
    first = jobs.hold()
    second = jobs.follow()
    waiting = told(second, lambda one: one.reason == "in_use")
    assert f"the only GPU of node claimed-1 of GPU class 'l4' is in use by job {first.id}" in waiting.message
    jobs.let_go()
    assert (first.wait(60).rows_assigned, second.wait(60).rows_assigned) == (ROWS, ROWS)


def test_what_is_rendered_of_a_class_is_taken_by_the_api_server(
    cluster: RunningCluster, namespace: str, driver: str, make_jobs: MakeJobs, capsys: pytest.CaptureFixture[str]
):
    claim = {"device_class": driver, "selectors": [model_is(driver, "A100")]}
    jobs = make_jobs(device_claim=claim)
    options = ["--namespace", namespace, "--image", "worker:test"]
    assert main(["--db", jobs.database.uri, "classes", "render", GPU_CLASS, *options]) == 0
    taken = shell(cluster, "kubectl create --dry-run=server -f -", given=capsys.readouterr().out)
    kinds = [line.partition("/")[0] for line in taken.splitlines()]
    assert kinds == ["resourceclaimtemplate.resource.k8s.io", "pod"]


def test_the_check_of_classes_tells_what_devices_a_claim_would_find(
    cluster: RunningCluster,
    namespace: str,
    driver: str,
    publish: Publish,
    make_jobs: MakeJobs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    publish("L4", "L4")
    jobs = make_jobs(device_claim={"device_class": driver, "selectors": [model_is(driver, "A100")]})
    found = checked(jobs, namespace, capsys)
    assert (found["usable"], found["reason"], found["devices"], found["status"]) == (False, "claim", 0, 1)
    assert (
        found["message"]
        == f"its nodes publish 2 devices of class {driver}, none as its selectors ask, and a worker needs 1"
    )
    publish("A100", "L4")
    found = checked(jobs, namespace, capsys)
    assert (found["message"], found["devices"]) == ("a worker would start now: 1 device is free", 1)
