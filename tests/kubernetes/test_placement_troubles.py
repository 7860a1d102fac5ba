"""Workers as pods when things go wrong, and what it costs when they do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import worker_functions
from applied import NO_ONE, need_for, numbers
from cluster.api import Api, ApiError
from cluster.pods import pod, running
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from placement_suite import Asked, request_for

from lancegpu_sql.errors import ClusterForbidden, InvalidPlacement, WorkerLost
from lancegpu_sql.placement import GpuClass, Lost, PlacementEvent, Ready, Refused, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesConfig, KubernetesPlacement
from lancegpu_sql.placement.kubernetes.client import ClusterClient
from lancegpu_sql.workers import WorkerPool

L4 = GpuClass(name="l4", node_selector={"pool": "l4"})
STAND_IN = str(Path(__file__).parent / "stand_in_worker.py")
PATIENCE_SECONDS = 60

PER_POD = ("create", "delete", "patch", "get")
SIGHTS = ("Node", "Pod", "Event", "ResourceQuota", "ResourceClaim", "ResourceSlice", "DeviceClass")

Place = Callable[..., KubernetesPlacement]


class CountingClient(ClusterClient):
    """Counts calls by verb and kind."""

    def __init__(self, config: KubernetesConfig) -> None:
        super().__init__(config)
        self.calls: Counter[tuple[str, str]] = Counter()

    def _send(self, method: str, verb: str, kind: str, name: str = "", **more: Any) -> Any:
        self.calls[verb, kind] += 1
        return super()._send(method, verb, kind, name, **more)


@pytest.fixture
def options(cluster: RunningCluster) -> dict[str, Any]:
    """What a placement on the test cluster is told."""
    return {"kubeconfig": str(cluster.kubeconfig), "image": "worker:test", "python": STAND_IN}


@pytest.fixture
def place(namespace: str, options: dict[str, Any]) -> Iterator[Place]:
    """Make a placement in the test's own namespace."""
    made: list[KubernetesPlacement] = []

    def make(**more: Any) -> KubernetesPlacement:
        made.append(KubernetesPlacement(namespace, database="a test's", **{**options, **more}))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture
def l4(process_node: AddProcessNode) -> None:
    """A pool of one node with one GPU."""
    process_node("l4-1", gpus=1, labels={"pool": "l4"})


def left_behind(api: Api, namespace: str) -> list[str]:
    """The pods and Secrets of a namespace."""
    return [one["metadata"]["name"] for kind in ("Pod", "Secret") for one in api.list(kind, namespace)]


def wait_until(holds: Callable[[], bool]) -> None:
    """Look until something holds that nobody announces."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.usefixtures("l4")
def test_a_pods_life_costs_four_calls(namespace: str, place: Place, options: dict[str, Any]):
    """A worker that others use in turn costs at most two more for each turn: see `test_marks.py`."""
    counting = CountingClient(KubernetesConfig(namespace, **options))
    placement = place(cluster=counting)
    Asked(placement, request_for(L4)).next(Ready)
    before = Counter(counting.calls)
    asked = [Asked(placement, request_for(L4)) for _ in range(5)]
    for one in asked:
        one.next(Waiting)
    placement.close()
    spent = counting.calls - before
    # What they cost together: one look at the cluster, and what closing takes.
    assert sum(count for (verb, kind), count in spent.items() if kind in ("Pod", "Secret") and verb in PER_POD) <= 4 * 6
    assert sum(spent.values()) <= 4 * 6 + 2 * len(SIGHTS) + 3


@pytest.mark.usefixtures("l4")
def test_nothing_is_left_of_workers_that_were_released(cluster: RunningCluster, namespace: str, place: Place):
    placement = place()
    holder, waiter = Asked(placement, request_for(L4)), Asked(placement, request_for(L4))
    holder.next(Ready)
    waiter.next(Waiting)
    holder.release()
    waiter.next(Ready)
    waiter.release()
    placement.close()
    assert left_behind(cluster.client(), namespace) == []


@pytest.mark.usefixtures("l4")
def test_no_pod_is_made_after_the_request_was_withdrawn(cluster: RunningCluster, namespace: str, place: Place):
    placement = place()
    for _ in range(5):
        Asked(placement, request_for(L4)).release()
    assert [one["metadata"]["name"] for one in cluster.client().list("Pod", namespace)] == []


@pytest.mark.usefixtures("l4")
def test_a_killed_worker_is_lost_and_says_how(cluster: RunningCluster, namespace: str, place: Place):
    pool = WorkerPool(place(python="python"), worker_idle_seconds=0)
    lease = pool.lease(need_for(worker_functions.double, gpu_class=L4), lambda _: None, NO_ONE)
    (found,) = cluster.client().list("Pod", namespace)
    container = found["status"]["containerStatuses"][0]["containerID"]
    os.kill(int(container.rpartition("/")[2]), signal.SIGKILL)
    assert lease.why_lost(PATIENCE_SECONDS).cause == "signal"
    with pytest.raises(WorkerLost):
        lease.client.health(5)
    lease.release(broken=True)
    pool.close()


@pytest.mark.usefixtures("l4")
def test_a_deleted_pod_is_lost(cluster: RunningCluster, namespace: str, place: Place):
    asked = Asked(place(), request_for(L4))
    asked.next(Ready)
    (found,) = cluster.client().list("Pod", namespace)
    cluster.client().delete("Pod", found["metadata"]["name"], namespace)
    assert "deleted by somebody else" in asked.next(Lost).message


@pytest.mark.usefixtures("l4")
def test_requests_outlive_a_restart_of_the_api_server(cluster: RunningCluster, namespace: str, place: Place):
    placement = place()
    holder, waiter = Asked(placement, request_for(L4)), Asked(placement, request_for(L4))
    holder.next(Ready)
    waiter.next(Waiting)
    cluster.plane.stop_api_server()
    late = Asked(placement, request_for(L4))
    assert late.next(Waiting).reason == "api_server"
    cluster.plane.start_api_server()
    holder.release()
    waiter.next(Ready)
    waiter.release()
    late.next(Ready)


@pytest.mark.usefixtures("l4")
def test_a_full_quota_is_waited_for(cluster: RunningCluster, namespace: str, place: Place):
    api = cluster.client()
    quota = {"kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"count/pods": "1"}}}
    api.create(quota, namespace)
    api.until("ResourceQuota", "few", lambda one: bool(one and one.get("status", {}).get("hard")), namespace)
    placement = place()
    holder = Asked(placement, request_for(L4))
    holder.next(Ready)
    waiter = Asked(placement, request_for(L4))
    waiting = waiter.next(Waiting)
    assert waiting.reason == "quota"
    assert "'few'" in waiting.message
    holder.release()
    waiter.next(Ready)


def test_a_namespace_that_is_not_there_is_refused_at_once(options: dict[str, Any]):
    placement = KubernetesPlacement("no-such-namespace", **options)
    error = Asked(placement, request_for(L4)).next(Refused).error
    assert isinstance(error, InvalidPlacement)
    assert "no-such-namespace" in error.message
    placement.close()


def test_a_service_account_that_is_not_there_is_refused_at_once(place: Place):
    error = Asked(place(service_account="nobody"), request_for(L4)).next(Refused).error
    assert "no ServiceAccount 'nobody'" in error.message


def test_what_access_rules_forbid_is_refused_at_once(cluster: RunningCluster, place: Place):
    stranger = place(kubeconfig=str(cluster.plane.user("a-stranger")))
    error = Asked(stranger, request_for(L4)).next(Refused).error
    assert isinstance(error, ClusterForbidden)


MAY = {
    "configmaps": ["create", "get", "patch"],
    "secrets": ["create", "get", "delete", "deletecollection"],
    "pods": ["create", "get", "list", "watch", "patch", "delete", "deletecollection"],
}


def user_who_may(cluster: RunningCluster, namespace: str, *resources: str) -> str:
    """The kubeconfig of a user with what a placement needs of these, in one namespace, and no right beside."""
    name = f"{namespace}-user"
    rules = [{"apiGroups": [""], "resources": [one], "verbs": MAY[one]} for one in resources]
    group = "rbac.authorization.k8s.io"
    cluster.client().create({"kind": "Role", "metadata": {"name": name}, "rules": rules}, namespace)
    bound = {"roleRef": {"apiGroup": group, "kind": "Role", "name": name}}
    bound["subjects"] = [{"apiGroup": group, "kind": "User", "name": name}]  # type: ignore[assignment]
    cluster.client().create({"kind": "RoleBinding", "metadata": {"name": name}, **bound}, namespace)
    return str(cluster.plane.user(name))


def test_a_right_that_is_missing_is_named_with_its_verb(cluster: RunningCluster, namespace: str, place: Place):
    user = user_who_may(cluster, namespace, "configmaps", "pods")
    error = Asked(place(kubeconfig=user), request_for(L4)).next(Refused).error
    assert isinstance(error, ClusterForbidden)
    assert "the verb create on secrets there" in error.message


@pytest.mark.usefixtures("l4")
def test_who_may_not_look_at_nodes_is_told_less_and_which_right_would_tell_more(
    cluster: RunningCluster, namespace: str, place: Place
):
    placement = place(kubeconfig=user_who_may(cluster, namespace, "configmaps", "pods", "secrets"))
    Asked(placement, request_for(L4)).next(Ready)
    waiting = Asked(placement, request_for(L4)).next(Waiting)
    assert (waiting.reason, waiting.can_be_met) == ("in_use", None)
    assert "with the right to list nodes (in the whole cluster) and to list pods (in all namespaces)" in waiting.message


@pytest.mark.usefixtures("l4")
def test_an_admission_webhook_that_is_down_is_waited_for(cluster: RunningCluster, namespace: str, place: Place):
    api = cluster.client()
    hook = {
        "name": "down.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    kind = "ValidatingWebhookConfiguration"
    api.create({"kind": kind, "metadata": {"name": namespace}, "webhooks": [hook]})
    try:
        pod_refused(api, namespace)
        asked = Asked(place(), request_for(L4))
        waiting = asked.next(Waiting)
        assert waiting.reason == "api_server"
        assert "down.example.com" in waiting.message
    finally:
        api.delete(kind, namespace)
    asked.next(Ready)


def pod_refused(api: Api, namespace: str) -> None:
    """Wait until the API server asks the webhook: it hears of it a moment later."""

    def refuses() -> bool:
        try:
            api.raw("POST", f"api/v1/namespaces/{namespace}/pods", pod("tried", "true"), query={"dryRun": "All"})
        except ApiError:
            return True
        return False

    wait_until(refuses)


def test_a_namespace_that_is_being_removed_is_refused_at_once(cluster: RunningCluster, options: dict[str, Any]):
    api, name = cluster.client(), f"leaving-{os.getpid()}"
    api.create({"kind": "Namespace", "metadata": {"name": name}})
    api.create({"kind": "ConfigMap", "metadata": {"name": "stays", "finalizers": ["example.com/stay"]}}, name)
    api.delete("Namespace", name)
    api.until("Namespace", name, lambda one: bool(one) and one["status"]["phase"] == "Terminating")
    placement = KubernetesPlacement(name, **options)
    assert "it is being terminated" in Asked(placement, request_for(L4)).next(Refused).error.message
    placement.close()
    api.patch("ConfigMap", "stays", {"metadata": {"finalizers": None}}, name)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from placement_suite import Asked, request_for
from lancegpu_sql.placement import GpuClass, Ready, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
placement = KubernetesPlacement(sys.argv[2], database="a test's", kubeconfig=sys.argv[3], image="worker:test", python=sys.argv[4])
l4 = GpuClass(name="l4", node_selector={"pool": "l4"})
Asked(placement, request_for(l4)).next(Ready)
Asked(placement, request_for(l4)).next(Waiting)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("l4")
def test_what_a_killed_process_left_behind_is_removed_by_the_next(
    cluster: RunningCluster, namespace: str, place: Place
):
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(Path(__file__).parents[1]),
        namespace,
        str(cluster.kubeconfig),
        STAND_IN,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        owner.kill()
    assert len(cluster.client().list("Pod", namespace)) == 2
    placement = place()
    Asked(placement, request_for(L4)).next(Ready)
    placement.close()
    wait_until(lambda: left_behind(cluster.client(), namespace) == [])


@pytest.mark.usefixtures("l4")
def test_a_process_that_ends_takes_its_pods_along(cluster: RunningCluster, namespace: str):
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(Path(__file__).parents[1]),
        namespace,
        str(cluster.kubeconfig),
        STAND_IN,
    ]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE_SECONDS)
    wait_until(lambda: left_behind(cluster.client(), namespace) == [])


@pytest.mark.usefixtures("l4")
def test_a_worker_computes_soon_after_its_node_has_room(cluster: RunningCluster, namespace: str, place: Place):
    """The limit is far above what it takes (under a second, half of it Python's start), for machines that are busy."""
    api = cluster.client()
    api.create(pod("foreign", "sleep 600", gpus=1), namespace)
    api.until("Pod", "foreign", running, namespace)
    pool = WorkerPool(place(python="python"), worker_idle_seconds=0)
    told: list[tuple[float, PlacementEvent]] = []

    def note(event: PlacementEvent) -> None:
        if not told:
            api.delete("Pod", "foreign", namespace)
        told.append((time.monotonic(), event))

    lease = pool.lease(need_for(worker_functions.double, gpu_class=L4), note, NO_ONE)
    stream = lease.client.open_stream()
    for number in range(3):
        stream.send(number, numbers([1]))
        stream.receive()
        told.append((time.monotonic(), Ready("computed", "")))
    assert told[-1][0] - told[0][0] < 10
    stream.close()
    lease.release()
    pool.close()
