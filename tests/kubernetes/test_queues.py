"""GPU classes queued by Kueue, with whole jobs: what waits for quota, what can never be admitted, and what is set up wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster.api import Api, Object
from cluster.kueue import QUEUE_LABEL, Kueue
from cluster.pods import pod
from cluster.process_node import GPU, AddProcessNode
from cluster.running import RunningCluster
from two_jobs import ROWS, MakeJobs, checked, shell, told

from lancegpu_sql.cli import main
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.placement.kubernetes.lifecycle import Leaving, PodStory
from lancegpu_sql.placement.kubernetes.views import pod_view

KUEUES = ("ClusterQueue", "ResourceFlavor")


@pytest.fixture
def api(cluster: RunningCluster, kueue: Kueue) -> Api:
    """The API server, with Kueue beside it."""
    return cluster.client()


@pytest.fixture
def queue(api: Api, namespace: str) -> Iterator[Callable[..., None]]:
    """``queue(name, gpus=…)``: a LocalQueue and the ClusterQueue that it feeds, with a quota of so many GPUs."""
    made: list[str] = []

    def make(name: str, *, gpus: int = 1, **more: Any) -> None:
        cluster_queue = f"{name}-of-{namespace}"
        made.append(cluster_queue)
        api.create(
            {"kind": "ResourceFlavor", "metadata": {"name": cluster_queue}, "spec": {"nodeLabels": {"pool": namespace}}}
        )
        quota = [
            {"name": one, "nominalQuota": much} for one, much in (("cpu", "64"), ("memory", "1Ti"), (GPU, str(gpus)))
        ]
        group = {"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": cluster_queue, "resources": quota}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], **more}
        api.create({"kind": "ClusterQueue", "metadata": {"name": cluster_queue}, "spec": spec})
        api.create(
            {"kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": cluster_queue}}, namespace
        )

    yield make
    for kind in KUEUES:
        for name in made:
            api.delete(kind, name)


@pytest.fixture
def urgent(api: Api, namespace: str) -> Iterator[str]:
    """The name of a PriorityClass whose pods come first."""
    api.create({"kind": "PriorityClass", "metadata": {"name": namespace}, "value": 1000})
    yield namespace
    api.delete("PriorityClass", namespace)


@pytest.fixture
def gpus(namespace: str, process_node: AddProcessNode) -> None:
    """A node with more GPUs than any quota here."""
    process_node("queued-1", gpus=2, labels={"pool": namespace})


def lost_as(leaving: Object) -> str:
    """How the end of a pod is told."""
    (event,) = PodStory().observe(pod_view(leaving))
    assert isinstance(event, Leaving)
    return event.message


@pytest.mark.usefixtures("gpus")
def test_a_job_waits_for_the_quota_that_another_has_and_goes_on_after_it(
    cluster: RunningCluster,
    namespace: str,
    queue: Callable[..., None],
    make_jobs: MakeJobs,
    capsys: pytest.CaptureFixture[str],
):
    queue("team")
    jobs = make_jobs(queue="team")
    first = jobs.hold()
    second = jobs.follow()
    waiting = told(second, lambda one: "in use by" in one.message)
    assert (waiting.reason, waiting.can_be_met) == ("quota", True)
    assert f"1 of 1 GPU of the ClusterQueue 'team-of-{namespace}' is in use by job {first.id}" in waiting.message
    assert [gate.startswith("kueue.x-k8s.io/") for gate in waiting.detail["pod"]["gates"]] == [True, True]
    assert all(shell(cluster, line) for line in waiting.detail["kubectl"])
    assert main(["--db", jobs.database.uri, "why", second.id]) == 0
    shown = capsys.readouterr().out
    assert f"quota {GPU} of flavor team-of-{namespace}: 1 of 1 reserved" in shown
    assert f"kubectl -n {namespace} describe workloads.kueue.x-k8s.io pod-" in shown
    jobs.let_go()
    assert (first.wait(60).rows_assigned, second.wait(60).rows_assigned) == (ROWS, ROWS)


@pytest.mark.usefixtures("gpus")
def test_more_than_a_queue_may_ever_have_is_told_and_waited_for_until_it_has_it(
    api: Api, namespace: str, queue: Callable[..., None], make_jobs: MakeJobs
):
    queue("team", gpus=1)
    job = make_jobs(queue="team", memory_bytes="2TiB").follow()
    waiting = told(job, lambda one: one.can_be_met is False)
    assert waiting.reason == "quota"
    assert (
        "one worker needs 2 TiB of memory, and at most 1 TiB of memory can be had in Kueue's queue 'team'"
        in waiting.message
    )
    job.cancel()
    with pytest.raises(Cancelled):
        job.wait(60)


@pytest.mark.usefixtures("gpus")
def test_a_queue_that_is_not_there_is_named_and_the_job_starts_when_it_is(
    namespace: str, queue: Callable[..., None], make_jobs: MakeJobs
):
    job = make_jobs(queue="team").follow()
    waiting = told(job, lambda one: one.can_be_met is False)
    assert waiting.reason == "quota"
    assert f"namespace '{namespace}' has no LocalQueue 'team'" in waiting.message
    queue("team")
    assert job.wait(60).rows_assigned == ROWS


@pytest.mark.usefixtures("gpus")
def test_a_refresh_may_name_another_queue_than_its_class(queue: Callable[..., None], make_jobs: MakeJobs):
    queue("team")
    queue("other")
    jobs = make_jobs(queue="team")
    first = jobs.hold()
    assert jobs.follow(queue="other").wait(60).rows_assigned == ROWS
    jobs.let_go()
    first.wait(60)


@pytest.mark.usefixtures("gpus")
def test_a_worker_whose_quota_is_taken_back_is_replaced_when_there_is_some_again(
    api: Api, namespace: str, queue: Callable[..., None], urgent: str, make_jobs: MakeJobs
):
    queue("team", preemption={"withinClusterQueue": "LowerPriority"})
    jobs = make_jobs(queue="team")
    job = jobs.hold()
    ours = api.list("Pod", namespace)[0]["metadata"]["name"]
    foreign = pod("foreign", "sleep 600", gpus=1, priorityClassName=urgent)
    foreign["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    api.create(foreign, namespace)
    leaving = api.until("Pod", ours, lambda one: "deletionTimestamp" in one["metadata"], namespace)
    assert "by Kueue, which took its quota back" in lost_as(leaving)
    api.until_printed(ours, "asked to end", namespace)
    jobs.let_go()
    waiting = told(job, lambda one: "1 pod that is not ours" in one.message)
    assert (waiting.reason, waiting.can_be_met) == ("quota", True)
    api.delete("Pod", "foreign", namespace, grace_seconds=0)
    assert job.wait(60).rows_assigned == ROWS


@pytest.mark.usefixtures("gpus")
def test_the_check_of_classes_tells_a_queue_that_is_not_right(
    cluster: RunningCluster,
    namespace: str,
    queue: Callable[..., None],
    make_jobs: MakeJobs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    jobs = make_jobs(queue="team")
    found = checked(jobs, namespace, capsys)
    assert (found["usable"], found["reason"], found["admitted"], found["status"]) == (False, "quota", True, 1)
    assert "has no LocalQueue 'team'" in found["message"]
    queue("team")
    found = checked(jobs, namespace, capsys)
    assert found["message"] == "a worker would start now: 2 GPUs are free; Kueue's queue 'team' admits it first"
