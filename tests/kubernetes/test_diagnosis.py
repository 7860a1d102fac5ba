"""Why a worker's pod waits, told from the objects of a real API server and scheduler; and what follows when that changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cluster.api import Api, ApiError, Object
from cluster.kwok import AddKwokNodes
from cluster.pods import ended, pod, running, unschedulable
from cluster.process_node import GPU, AddProcessNode
from cluster.running import RunningCluster

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.cli import main
from lancegpu_sql.placement import GpuClass, Lost, Waiting, WorkerRequest
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.lifecycle import Ending, PodStory
from lancegpu_sql.placement.kubernetes.manifest import claim_template, worker_pod
from lancegpu_sql.placement.kubernetes.views import event_view, node_view, pod_view, quota_view

AN_HOUR = timedelta(hours=1)
DRIVER = "gpu.example.com"


@dataclass(frozen=True)
class Scene:
    """One namespace, whose class of GPUs selects nodes by the namespace's name."""

    api: Api
    namespace: str

    @property
    def pool(self) -> dict[str, str]:
        return {"pool": self.namespace}

    def ask(self, name: str = "mine", *, job: str = "j-mine", gpus: int = 1, **of_class: Any) -> None:
        """Make a worker's pod."""
        self.api.create(self.manifest(name, job=job, gpus=gpus, **of_class), self.namespace)

    def manifest(self, name: str = "mine", *, job: str = "j-mine", gpus: int = 1, **of_class: Any) -> Object:
        request = self.request(job, gpus, **of_class)
        config = KubernetesConfig(self.namespace, image="worker:test")
        return worker_pod(request, config, name=name, secret_name=name, owner=None, database="a test's")

    def request(self, job: str = "j-mine", gpus: int = 1, **of_class: Any) -> WorkerRequest:
        return WorkerRequest("r", job, f"job {job}", "embed", 1, self.gpu_class(**of_class), gpus, 1, {}, 0.0)

    def gpu_class(self, **of_class: Any) -> GpuClass:
        return GpuClass(name="a100", node_selector=self.pool, **of_class)

    def why(self, name: str = "mine", *, later: timedelta = timedelta(), **of_class: Any) -> Waiting:
        """Say why a pod waits that the scheduler has refused."""
        self.api.until("Pod", name, unschedulable, self.namespace)
        return self.told(name, later=later, **of_class)

    def told(self, name: str = "mine", *, later: timedelta = timedelta(), **of_class: Any) -> Waiting:
        """Say why a pod waits, as it is now."""
        return self.diagnosed(self.api.get("Pod", name, self.namespace), later=later, **of_class)

    def diagnosed(self, found: Object | None, *, later: timedelta = timedelta(), **of_class: Any) -> Waiting:
        request = self.request(**of_class)
        waiting = diagnose(pod_view(found), self.seen(), request.gpu_class, request, datetime.now(UTC) + later)
        json.dumps(dict(waiting.detail))
        return waiting

    def seen(self) -> ClusterView:
        every = self.api.list
        return ClusterView(
            nodes=tuple(map(node_view, every("Node"))),
            pods=tuple(map(pod_view, every("Pod"))),
            events=tuple(map(event_view, every("Event", self.namespace))),
            quotas=tuple(map(quota_view, every("ResourceQuota", self.namespace))),
            claims=tuple(map(claim_view, every("ResourceClaim"))),
            devices=tuple(device for one in every("ResourceSlice") for device in published_devices(one)),
            device_classes=tuple(map(device_class_view, every("DeviceClass"))),
        )

    def runs(self, name: str = "mine") -> None:
        """Wait until a pod runs."""
        self.api.until("Pod", name, running, self.namespace)

    def patch_node(self, name: str, change: Object, part: str = "") -> None:
        self.api.patch("Node", name, change, part=part)

    def lost(self, name: str, action: Callable[[], object]) -> tuple[PodStory, Lost]:
        """Do what ends a running pod, and follow its story to the end."""
        self.runs(name)
        story = PodStory()
        looks = self.api.watch(
            "Pod", self.namespace, timeout_seconds=60, on_listed=action, fieldSelector=f"metadata.name={name}"
        )
        for happened, found in looks:
            for event in story.observe(None if happened == "DELETED" else pod_view(found), now=datetime.now(UTC)):
                if isinstance(event, Lost):
                    return story, event
        raise AssertionError("the watch ended before the pod")


@pytest.fixture
def scene(cluster: RunningCluster, namespace: str) -> Scene:
    return Scene(cluster.client(), namespace)


@pytest.fixture
def made(scene: Scene) -> Iterator[Callable[[Object], None]]:
    """Makes objects of the whole cluster, and takes them away after the test."""
    objects: list[Object] = []

    def make(document: Object) -> None:
        scene.api.create(document)
        objects.append(document)

    yield make
    for document in objects:
        scene.api.delete(document["kind"], document["metadata"]["name"])


def test_no_node_carries_the_selector_and_then_one_does(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("other", gpus=1, labels={"pool": "another"})
    scene.ask()
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("no_matching_node", False)
    assert "there are nodes with pool=another" in why.message
    kwok_node("gpu-1", gpus=1, labels=scene.pool)
    scene.runs()


def test_all_gpus_are_in_use_by_a_job_of_ours_and_by_others(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=2, labels=scene.pool)
    scene.ask("first", job="j-first")
    scene.runs("first")
    scene.api.create(pod("other", "true", gpus=1, node_selector=scene.pool), scene.namespace)
    scene.runs("other")
    scene.ask()
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("in_use", True)
    assert "by job j-first of embed (1 GPU), by 1 pod that is not ours (1 GPU)" in why.message
    (node,) = why.detail["nodes"]
    assert (node["name"], node["devices"], node["used"], node["free"]) == ("gpu-1", 2, 2, 0)
    scene.api.delete("Pod", "other", scene.namespace, grace_seconds=0)
    scene.runs()


def test_too_many_gpus_are_asked_for_and_then_a_node_has_them(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=2, labels=scene.pool)
    scene.ask(gpus=4)
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("too_large", False)
    assert "4 GPUs (the largest has 2 GPUs)" in why.message
    kwok_node("gpu-2", gpus=4, labels=scene.pool)
    scene.runs()


def test_more_memory_is_asked_for_than_any_node_has(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=2, labels=scene.pool)
    scene.ask(memory_bytes="500GiB")
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("too_large", False)
    assert "500 GiB of memory" in why.message
    kwok_node("gpu-2", gpus=1, labels=scene.pool, resources={"memory": "1Ti"})
    scene.runs()


def test_the_pool_is_tainted_then_cordoned_then_free(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=1, labels=scene.pool, taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
    scene.ask()
    assert scene.why().reason == "untolerated_taint"
    scene.patch_node("gpu-1", {"spec": {"unschedulable": True, "taints": None}})
    why = scene.why()
    assert why.reason == "cordoned"
    assert "kubectl uncordon gpu-1" in why.message
    scene.patch_node("gpu-1", {"spec": {"unschedulable": False, "taints": None}})
    scene.runs()


def test_a_node_offers_no_gpus_at_first_because_it_is_new_and_then_because_its_plugin_is_missing(
    scene: Scene, kwok_node: AddKwokNodes
):
    kwok_node("gpu-1", labels=scene.pool)
    scene.ask()
    assert scene.why().reason == "node_starting"
    assert scene.why(later=AN_HOUR).reason == "resource_not_advertised"
    offered = {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}
    scene.patch_node("gpu-1", {"status": offered}, "status")
    scene.runs()


def test_a_node_without_a_kubelet_is_starting_and_then_not_ready(scene: Scene, made: Callable[[Object], None]):
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", GPU: "1"}
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    made({"kind": "Node", "metadata": {"name": "silent", "labels": scene.pool}, "status": status})
    scene.ask()
    assert scene.why().reason == "node_starting"
    assert scene.why(later=AN_HOUR).reason == "not_ready"


def test_gpus_are_free_but_the_memory_beside_is_not(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=2, labels=scene.pool)
    hog = pod("hog", "true", node_selector=scene.pool)
    hog["spec"]["containers"][0]["resources"] = {"requests": {"memory": "120Gi"}}
    scene.api.create(hog, scene.namespace)
    scene.runs("hog")
    scene.ask(memory_bytes="64GiB")
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("other_resource", True)
    assert "2 GPUs of GPU class 'a100' are free on gpu-1, but not the 64 GiB of memory" in why.message
    scene.api.delete("Pod", "hog", scene.namespace, grace_seconds=0)
    scene.runs()


def test_the_device_plugin_reports_the_gpus_unhealthy(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=2, labels=scene.pool)
    scene.patch_node("gpu-1", {"status": {"allocatable": {GPU: "0"}}}, "status")
    scene.ask()
    assert scene.why().reason == "device_failed"
    scene.patch_node("gpu-1", {"status": {"allocatable": {GPU: "2"}}}, "status")
    scene.runs()


def test_a_kubelet_that_cannot_give_the_devices_refuses_the_pod(scene: Scene, process_node: AddProcessNode):
    process_node("gpu-1", gpus=1, labels=scene.pool)
    for name in ("first", "second"):
        scene.api.create(pod(name, "sleep 600", gpus=1, nodeName="gpu-1"), scene.namespace)
    second = scene.api.until("Pod", "second", ended, scene.namespace)
    assert scene.diagnosed(second).reason == "device_failed"


def test_a_full_quota_leaves_no_pod_and_is_told_all_the_same(scene: Scene):
    quota = {"kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "0"}}}
    scene.api.create(quota, scene.namespace)
    scene.api.until("ResourceQuota", "gpus", lambda found: found and found["status"].get("used"), scene.namespace)
    with pytest.raises(ApiError, match="exceeded quota"):
        scene.ask()
    why = scene.diagnosed({**scene.manifest(), "metadata": {"namespace": scene.namespace}})
    assert (why.reason, why.can_be_met) == ("quota", False)
    assert "'gpus'" in why.message


def device_class(**more: Any) -> Object:
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {"kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {"selectors": [selector], **more}}


def one_device(node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}


def test_a_claim_waits_for_the_only_device_and_gets_it(
    scene: Scene, kwok_node: AddKwokNodes, made: Callable[[Object], None]
):
    by_claim = {"device_claim": {"device_class": DRIVER}}
    kwok_node("gpu-1", labels=scene.pool)
    made(one_device("gpu-1"))
    made(device_class())
    template = claim_template(scene.gpu_class(**by_claim), 1, owner=None, database="a test's")
    assert template is not None
    scene.api.create(template, scene.namespace)
    scene.ask("first", job="j-first", **by_claim)
    scene.runs("first")
    scene.ask(**by_claim)
    why = scene.why(**by_claim)
    assert (why.reason, why.can_be_met) == ("claim", True)
    assert "allocated by job j-first" in why.message
    scene.api.delete("Pod", "first", scene.namespace, grace_seconds=0)
    scene.runs()


def test_gpus_behind_a_device_class_are_counted_by_its_slices(
    scene: Scene, kwok_node: AddKwokNodes, made: Callable[[Object], None]
):
    kwok_node("gpu-1", labels=scene.pool)
    made(one_device("gpu-1"))
    made(device_class(extendedResourceName=GPU))
    scene.ask("first", job="j-first")
    scene.runs("first")
    scene.ask()
    why = scene.why()
    assert (why.reason, why.can_be_met) == ("in_use", True)
    assert "the only GPU of node gpu-1 of GPU class 'a100' is in use by job j-first of embed (1 GPU)" in why.message


def test_a_mixed_pool_tells_what_is_soonest_gone_and_the_rest_after_it(scene: Scene, kwok_node: AddKwokNodes):
    kwok_node("gpu-1", gpus=1, labels=scene.pool)
    kwok_node("gpu-2", gpus=1, labels=scene.pool, taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    scene.ask("first", job="j-first")
    scene.runs("first")
    scene.ask()
    assert "; 1 further node is tainted" in scene.why().message
    scene.patch_node("gpu-2", {"spec": {"taints": None}})
    scene.runs()


def test_a_preempted_worker_is_told_from_a_deleted_one(
    scene: Scene, process_node: AddProcessNode, made: Callable[[Object], None]
):
    process_node("gpu-1", gpus=1, labels=scene.pool)
    made({"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000})
    scene.api.create(pod("low", "sleep 600", gpus=1, node_selector=scene.pool), scene.namespace)
    urgent = pod("high", "sleep 600", gpus=1, node_selector=scene.pool, priorityClassName="urgent")
    story, lost = scene.lost("low", lambda: scene.api.create(urgent, scene.namespace))
    assert (story.ending, lost.cause) == (Ending.PREEMPTED, "unreachable")
    story, lost = scene.lost("high", lambda: scene.api.delete("Pod", "high", scene.namespace))
    assert story.ending in (Ending.DELETED, Ending.CRASHED)


def test_a_drained_worker_is_told_from_one_that_a_taint_evicts(scene: Scene, process_node: AddProcessNode):
    process_node("gpu-1", labels=scene.pool)
    for name in ("drained", "tainted"):
        scene.api.create(pod(name, "sleep 600", node_selector=scene.pool), scene.namespace)
    path = f"api/v1/namespaces/{scene.namespace}/pods/drained/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "drained"}}
    story, _ = scene.lost("drained", lambda: scene.api.raw("POST", path, eviction))
    assert story.ending is Ending.DRAINED
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
    story, _ = scene.lost("tainted", lambda: scene.patch_node("gpu-1", taint))
    assert story.ending is Ending.TAINTED


# A doubled dollar sign is one, in a pod's command.
@pytest.mark.parametrize(("script", "cause"), [("sleep 0.5; exit 3", "exit"), ("sleep 0.5; kill -9 $$$$", "signal")])
def test_a_worker_that_ends_by_itself_says_how(scene: Scene, process_node: AddProcessNode, script: str, cause: str):
    process_node("gpu-1", labels=scene.pool)
    scene.api.create(pod("crashes", script, node_selector=scene.pool), scene.namespace)
    found = scene.api.until("Pod", "crashes", ended, scene.namespace)
    (lost,) = PodStory().observe(pod_view(found))
    assert isinstance(lost, Lost)
    assert lost.cause == cause


CLASSES = "gpu_classes: [{name: a100, node_selector: {pool: PLACE}}]"


@lg.function(gpu=True, gpu_class="a100")
def twice(number: int) -> int:
    """What the job of the next test would compute."""
    return 2 * number


@pytest.fixture
def database(cluster: RunningCluster, scene: Scene, tmp_path: Path) -> Iterator[lg.Database]:
    """A database in the scene's namespace, with a column that a GPU of its class would compute."""
    (tmp_path / "classes.yaml").write_text(CLASSES.replace("PLACE", scene.namespace))
    placement = KubernetesPlacement(scene.namespace, kubeconfig=str(cluster.kubeconfig), image="worker:test")
    db = lg.connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", placement=placement, progress="quiet")
    db.create_table("numbers", pa.table({"number": [1]})).add_columns({"twice": twice(lg.col("number"))})
    yield db
    db.close()


def test_the_command_line_tells_why_a_job_waits_and_shows_the_nodes(
    scene: Scene, kwok_node: AddKwokNodes, database: lg.Database, capsys: pytest.CaptureFixture[str]
):
    kwok_node("gpu-1", gpus=1, labels=scene.pool)
    scene.ask("first", job="j-first")
    scene.runs("first")
    job = database.open_table("numbers").refresh_column_async("twice")
    record = job.record
    while record.state != JobState.WAITING:
        record = job.next_change(record, 30)
    assert main(["--db", database.uri, "why", job.id]) == 0
    told = capsys.readouterr().out
    assert told.startswith("The only GPU of node gpu-1 of GPU class 'a100' is in use by job j-first of embed (1 GPU)")
    assert re.search(r"gpu-1 +in use +1 +1 +0 +0 +job j-first \(embed\): 1", told)
    assert f"kubectl -n {scene.namespace} describe pod" in told
    job.cancel()
    with pytest.raises(lg.errors.Cancelled):
        job.wait(30)


def test_every_command_that_a_diagnosis_gives_shows_something(
    cluster: RunningCluster, scene: Scene, kwok_node: AddKwokNodes
):
    kwok_node("gpu-1", labels=scene.pool)
    scene.ask()
    lines = scene.why().detail["kubectl"]
    assert len(lines) == 2
    programs = f"{cluster.plane.programs.folder}:{os.environ['PATH']}"
    for line in lines:
        environment = {**os.environ, "PATH": programs, "KUBECONFIG": str(cluster.kubeconfig)}
        shown = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=True)
        assert "mine" in shown.stdout or "gpu-1" in shown.stdout
