"""The story of a pod: its start, step by step, and every way in which it is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lancegpu_sql.placement.kubernetes.lifecycle import (
    Ending,
    Leaving,
    PodEvent,
    PodStory,
    Running,
    Unplaced,
)
from lancegpu_sql.placement.kubernetes.views import event_view, node_view, pod_view
from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.request import Lost, Preparing, Starting

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
POD = {
    "metadata": {"name": "w1", "namespace": "work", "uid": "u1"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Pending"},
}
RUNNING = merged(
    POD,
    {
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "containerStatuses": [{"name": "worker", "ready": True, "state": {"running": {}}}],
        }
    },
)
SILENT_NODE = node_view(
    {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
)


def seen(*looks: Any) -> tuple[PodStory, list[PodEvent]]:
    story = PodStory()
    return story, [
        event for look in looks for event in story.observe(None if look is None else pod_view(look), now=NOW)
    ]


def terminated(**facts: Any) -> dict[str, Any]:
    state = {"terminated": {"reason": "Error", **facts}}
    return merged(RUNNING, {"status": {"phase": "Failed", "containerStatuses": [{"name": "worker", "state": state}]}})


def disrupted(reason: str, **more: Any) -> Any:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "because"}
    leaving = {"metadata": {"deletionTimestamp": "2026-11-30T12:00:30Z"}, "status": {"conditions": [condition]}}
    return merged(merged(RUNNING, leaving), more)


def test_a_start_is_told_step_by_step_and_each_step_once() -> None:
    creating = [{"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    _, told = seen(
        merged(POD, {"spec": {"nodeName": None}}),
        merged(POD, {"spec": {"nodeName": None}}),
        POD,
        merged(POD, {"status": {"containerStatuses": creating}}),
        RUNNING,
        RUNNING,
    )
    assert told == [Unplaced(), Starting("scheduled"), Starting("creating the container"), Running("10.0.0.7")]


def test_an_event_tells_that_the_image_is_being_pulled() -> None:
    pulling = event_view({"reason": "Pulling"})
    assert PodStory().observe(pod_view(POD), events=[pulling]) == (Starting("pulling the image"),)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError"])
def test_a_container_that_cannot_start_puts_the_pod_back_among_those_that_wait(reason: str) -> None:
    stuck = [{"name": "worker", "state": {"waiting": {"reason": reason}}}]
    _, told = seen(POD, merged(POD, {"status": {"containerStatuses": stuck}}))
    assert told[-1] == Unplaced(held_up=True)


def test_a_pod_that_is_held_up_on_a_node_is_told_though_its_way_there_was_not_seen() -> None:
    stuck = [{"name": "worker", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    _, told = seen(merged(POD, {"spec": {"nodeName": None}}), merged(POD, {"status": {"containerStatuses": stuck}}))
    assert told == [Unplaced(), Unplaced(held_up=True)]


@pytest.mark.parametrize(
    ("reason", "ending", "words"),
    [
        ("PreemptionByScheduler", Ending.PREEMPTED, "higher priority"),
        ("EvictionByEvictionAPI", Ending.DRAINED, "kubectl drain"),
        ("DeletionByTaintManager", Ending.TAINTED, "taint"),
        ("DeletionByPodGC", Ending.NODE_DELETED, "node is gone"),
        ("TerminationByKubelet", Ending.EVICTED, "kubelet"),
        ("DeletionByDeviceTaintManager", Ending.DEVICE_FAILED, "taint of its device"),
        ("SomethingNewer", Ending.EVICTED, "SomethingNewer"),
    ],
)
def test_a_pod_that_others_end_is_leaving_first_and_lost_when_it_is_gone(
    reason: str, ending: Ending, words: str
) -> None:
    story, told = seen(RUNNING, disrupted(reason), disrupted(reason), None)
    _, leaving, lost = told
    assert isinstance(leaving, Leaving)
    assert isinstance(lost, Lost)
    assert (leaving.ending, leaving.until, lost.cause) == (ending, NOW + timedelta(seconds=30), "unreachable")
    assert words in lost.message
    assert story.ending is ending


@pytest.mark.parametrize(
    ("status", "ending", "words"),
    [
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory."},
            Ending.EVICTED,
            "ran short of memory",
        ),
        ({"reason": "UnexpectedAdmissionError"}, Ending.DEVICE_FAILED, "could not give it the devices"),
        ({"reason": "OutOfnvidia.com/gpu"}, Ending.REFUSED, "OutOfnvidia.com/gpu"),
        ({"reason": "NodeAffinity"}, Ending.REFUSED, "labels"),
        ({"reason": "Preempting"}, Ending.PREEMPTED, "critical pod"),
        ({"reason": "NodeShutdown"}, Ending.SHUTDOWN, "shutting down"),
        ({"reason": "NodeLost"}, Ending.NODE_LOST, "does not answer"),
    ],
)
def test_a_pod_that_its_kubelet_ends_or_refuses_is_no_fault_of_its_batch(
    status: dict[str, str], ending: Ending, words: str
) -> None:
    story, told = seen(POD, merged(POD, {"status": {"phase": "Failed", **status}}))
    assert isinstance(told[-1], Lost)
    assert told[-1].cause == "unreachable"
    assert words in told[-1].message
    assert story.ending is ending


@pytest.mark.parametrize(
    ("facts", "cause", "words"),
    [
        ({"reason": "OOMKilled", "exitCode": 137}, "memory", "memory limit"),
        ({"exitCode": 137}, "signal", "SIGKILL"),
        ({"exitCode": 139}, "signal", "SIGSEGV"),
        ({"exitCode": 0, "signal": 15}, "signal", "SIGTERM"),
        ({"exitCode": 3}, "exit", "exit code 3"),
        ({"exitCode": 0, "reason": "Completed"}, "exit", "exit code 0"),
        ({"exitCode": 255}, "exit", "exit code 255"),
        ({"exitCode": 128, "reason": "StartError", "message": "exec: python: not found"}, "exit", "python: not found"),
    ],
)
def test_a_container_that_ends_by_itself_says_how(facts: dict[str, Any], cause: str, words: str) -> None:
    _, told = seen(RUNNING, terminated(**facts))
    assert isinstance(told[-1], Lost)
    assert told[-1].cause == cause
    assert words in told[-1].message


def test_a_container_killed_for_memory_stays_so_though_its_node_is_being_drained() -> None:
    killed = merged(
        disrupted("EvictionByEvictionAPI"), {"status": terminated(reason="OOMKilled", exitCode=137)["status"]}
    )
    _, told = seen(RUNNING, killed)
    assert isinstance(told[-1], Lost)
    assert told[-1].cause == "memory"


def test_a_container_that_ends_while_its_pod_is_evicted_is_no_crash() -> None:
    gone = merged(
        terminated(exitCode=143), {"status": {"conditions": disrupted("EvictionByEvictionAPI")["status"]["conditions"]}}
    )
    _, told = seen(RUNNING, gone)
    assert isinstance(told[-1], Lost)
    assert told[-1].cause == "unreachable"


def test_a_side_car_that_ends_is_not_the_worker() -> None:
    beside = [*RUNNING["status"]["containerStatuses"], {"name": "proxy", "state": {"terminated": {"exitCode": 1}}}]
    with_proxy = merged(RUNNING, {"status": {"containerStatuses": beside}})
    assert seen(RUNNING, with_proxy)[1] == [Running("10.0.0.7")]


def test_a_pod_that_vanishes_was_deleted_by_somebody() -> None:
    story, told = seen(RUNNING, None)
    assert isinstance(told[-1], Lost)
    assert "deleted by somebody else" in told[-1].message
    assert story.ending is Ending.DELETED


def test_a_pod_that_is_asked_to_end_on_a_silent_node_is_lost_at_once() -> None:
    story = PodStory()
    story.observe(pod_view(RUNNING), node=SILENT_NODE, now=NOW)
    (lost,) = story.observe(pod_view(disrupted("DeletionByTaintManager")), node=SILENT_NODE, now=NOW)
    assert isinstance(lost, Lost)
    assert story.ending is Ending.NODE_LOST


def test_a_silent_node_alone_loses_nothing() -> None:
    assert PodStory().observe(pod_view(RUNNING), node=SILENT_NODE, now=NOW) == (Running("10.0.0.7"),)


def test_a_pod_that_never_goes_is_stuck_and_says_when_to_look_again() -> None:
    story = PodStory()
    view = pod_view(disrupted("EvictionByEvictionAPI"))
    story.observe(view, now=NOW)
    assert story.look_again_at is not None
    (lost,) = story.observe(view, now=story.look_again_at)
    assert isinstance(lost, Lost)
    assert (lost.cause, story.ending, story.look_again_at) == ("unreachable", Ending.STUCK, None)


def test_an_end_that_its_owner_asked_for_is_no_loss() -> None:
    story = PodStory()
    story.observe(pod_view(RUNNING))
    story.expect_end()
    assert story.observe(pod_view(terminated(exitCode=0))) == ()
    assert story.observe(None) == ()


def test_a_pod_without_a_node_that_is_asked_to_end_is_lost() -> None:
    leaving = merged(POD, {"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}, "spec": {"nodeName": None}})
    assert isinstance(seen(leaving)[1][-1], Lost)


def test_a_pod_that_kueue_ends_says_so() -> None:
    condition = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvicted", "message": "Preempted"}
    leaving = {"metadata": {"deletionTimestamp": "2026-11-30T12:00:30Z"}, "status": {"conditions": [condition]}}
    story, told = seen(RUNNING, merged(RUNNING, leaving))
    assert story.ending is Ending.PREEMPTED
    assert "by Kueue, which took its quota back (WorkloadEvicted)" in told[-1].message


def environment(state: dict[str, Any], phase: str = "Pending") -> Any:
    waiting = [{"name": "worker", "state": {"waiting": {"reason": "PodInitializing"}}}]
    first = [{"name": "environment", "state": state}]
    return merged(POD, {"status": {"phase": phase, "initContainerStatuses": first, "containerStatuses": waiting}})


def test_the_making_of_an_environment_is_told_before_the_start_of_the_worker() -> None:
    _, told = seen(environment({"running": {}}), environment({"terminated": {"exitCode": 0}}), RUNNING)
    assert [type(event) for event in told] == [Preparing, Starting, Running]


def test_an_environment_that_cannot_be_made_is_told_in_the_installers_words() -> None:
    failed = {"terminated": {"exitCode": 69, "message": "no such package\n" * 40}}
    story, told = seen(environment(failed, "Failed"))
    assert story.ending is Ending.ENVIRONMENT
    assert told == [Lost("exit", ("no such package\n" * 40).strip())]


def test_a_container_before_the_worker_that_was_killed_is_a_loss_like_any_other() -> None:
    story, told = seen(environment({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "Failed"))
    assert story.ending is Ending.CRASHED
    assert "SIGKILL" in str(told)
