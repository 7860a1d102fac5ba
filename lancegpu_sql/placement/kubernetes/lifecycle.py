"""The story of one worker's pod: what each look at it means for the request that it stands for."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lancegpu_sql.functions.environment_maker import EXIT_FAILED
from lancegpu_sql.placement.kubernetes.preparing import ENVIRONMENT_CONTAINER
from lancegpu_sql.placement.kubernetes.views import ContainerView, EventView, NodeView, PodView
from lancegpu_sql.placement.pod_security import WORKER_CONTAINER
from lancegpu_sql.placement.request import Lost, LostCause, Preparing, Starting

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "CreateContainerConfigError",
    }
)
"""Why a kubelet does not get as far as a container; the last one is a missing Secret, or an image that wants root."""

_SETUP_REASONS = frozenset({"CreateContainerError", "RunContainerError", "CreatePodSandboxError"})
"""What a kubelet tries again: a runtime that is not there yet, a driver that is being installed."""

_STUCK_AFTER = timedelta(seconds=30)
"""A kubelet that lives removes a pod within a second or two of its grace period."""

# What kubelets say, in this order, of a container that they start.
_STEPS = ("Pulling", "Pulled", "Created", "Started")

SCHEDULED = "scheduled"
PULLING_IMAGE = "pulling the image"
CREATING_CONTAINER = "creating the container"
LOADING = "starting the worker"


class Ending(StrEnum):
    """Why a pod ended, or will."""

    EVICTED = "evicted"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    TAINTED = "tainted"
    SHUTDOWN = "shutdown"
    MEMORY = "memory"
    NODE_LOST = "node_lost"
    NODE_DELETED = "node_deleted"
    CRASHED = "crashed"
    DEVICE_FAILED = "device_failed"
    REFUSED = "refused"
    ENVIRONMENT = "environment"
    STUCK = "stuck"
    DELETED = "deleted"


@dataclass(frozen=True)
class Unplaced:
    """The pod has no node, or is held up on it: `diagnosis.diagnose` says why."""

    held_up: bool = False


@dataclass(frozen=True)
class Running:
    """The container runs; what it serves is at `pod_ip`."""

    pod_ip: str


@dataclass(frozen=True)
class Leaving:
    """Somebody else asked for the pod's end: no new batch should go to it. It has until `until` for the one in flight."""

    ending: Ending
    message: str
    until: datetime | None


PodEvent = Unplaced | Preparing | Starting | Running | Leaving | Lost

# The reasons of the condition DisruptionTarget (API documentation of pods, "Pod disruption conditions").
_DISRUPTIONS: dict[str, tuple[Ending, str]] = {
    "PreemptionByScheduler": (Ending.PREEMPTED, "was preempted: a pod of higher priority took its place"),
    "DeletionByTaintManager": (Ending.TAINTED, "was evicted by a taint that it does not tolerate"),
    "EvictionByEvictionAPI": (Ending.DRAINED, "was evicted on request, as kubectl drain and autoscalers do"),
    "DeletionByPodGC": (Ending.NODE_DELETED, "was removed because its node is gone"),
    "DeletionByDeviceTaintManager": (Ending.DEVICE_FAILED, "was evicted by a taint of its device"),
    "TerminationByKubelet": (
        Ending.EVICTED,
        "was ended by its kubelet, which needed the node's resources or shut down",
    ),
}

_STOPPED_BY_KUEUE = "TerminationTarget"
"""The condition that Kueue sets before it deletes a pod: for a workload that comes first, or one that was stopped."""

# Reasons of a pod's status that kubelets and controllers set; those that start with OutOf are a kubelet's refusals.
_FAILURES: dict[str, tuple[Ending, str]] = {
    "Evicted": (
        Ending.EVICTED,
        "was evicted by its kubelet: its node ran short of memory, disk or processes, or it took more disk than it may",
    ),
    "Preempting": (Ending.PREEMPTED, "was ended by its kubelet for a critical pod"),
    "NodeShutdown": (Ending.SHUTDOWN, "was refused: its node is shutting down"),
    "Terminated": (Ending.SHUTDOWN, "was ended because its node shut down"),
    "Shutdown": (Ending.SHUTDOWN, "was ended because its node shut down"),
    "NodeLost": (Ending.NODE_LOST, "was lost with its node, which does not answer any more"),
    "UnexpectedAdmissionError": (
        Ending.DEVICE_FAILED,
        "was refused by its kubelet, which could not give it the devices that the scheduler had counted on",
    ),
    "NodeAffinity": (Ending.REFUSED, "was refused by its kubelet: the node's labels do not suit it any more"),
    "TopologyAffinityError": (
        Ending.REFUSED,
        "was refused by its kubelet: its devices and CPUs are not close together",
    ),
    "DeadlineExceeded": (Ending.DELETED, "was ended at the pod's own deadline (activeDeadlineSeconds)"),
}

_MEMORY_ADVICE = "smaller batches, fewer calls at a time, or more memory_bytes in the class help"


class PodStory:
    """Takes looks at one pod, oldest first, and tells what is new in each.

    After a `Lost` nothing follows. An end that its owner asked for is told to `expect_end` first, and is no loss.
    """

    def __init__(self) -> None:
        self.ending: Ending | None = None
        """Why it is lost, or about to be; None as long as it is neither."""
        self.last: PodView | None = None
        """The last look."""
        self._told: PodEvent | None = None
        self._leaving_told = False
        self._expected = False
        self._over = False

    @property
    def look_again_at(self) -> datetime | None:
        """When to look again though nothing changed: a pod that should be gone by then is stuck."""
        if self._over or self.last is None or self.last.delete_by is None:
            return None
        return self.last.delete_by + _STUCK_AFTER

    def expect_end(self) -> None:
        """Note that its owner is about to delete it."""
        self._expected = True

    def observe(
        self,
        pod: PodView | None,
        *,
        node: NodeView | None = None,
        events: Sequence[EventView] = (),
        now: datetime | None = None,
    ) -> tuple[PodEvent, ...]:
        """Take one look and return what is new.

        Parameters
        ----------
        pod
            The pod; None once it is gone.
        node
            Its node, where nodes may be read: a pod that is asked to end on a node that does not answer is lost at once.
        events
            What was said of the pod, newest first: alone they tell that its image is being pulled.
        now
            The time of the look, without which a pod that never goes is not noticed.
        """
        if self._over:
            return ()
        if self._expected:
            self._over = pod is None or pod.ended
            self.last = pod or self.last
            return ()
        if pod is None:
            return self._lose(*self._how_it_went())
        self.last = pod
        if (words := _environment_failed(pod)) is not None:
            return self._lose(Ending.ENVIRONMENT, "exit", words)
        if pod.ended or _main_terminated(pod) is not None:
            return self._lose(*_how_it_failed(pod))
        if pod.delete_by is not None:
            return self._leave(pod, node, now)
        event = _standing(pod, events)
        if event == self._told:
            return ()
        self._told = event
        return (event,)

    def _leave(self, pod: PodView, node: NodeView | None, now: datetime | None) -> tuple[PodEvent, ...]:
        ending, cause, message = self._how_it_went()
        if node is not None and node.ready == "Unknown" and pod.node == node.name:
            return self._lose(
                Ending.NODE_LOST, "unreachable", f"{_who(pod)} was lost: its node does not answer any more"
            )
        if not pod.node:
            return self._lose(ending, cause, message)
        assert pod.delete_by is not None
        if now is not None and now >= pod.delete_by + _STUCK_AFTER:
            stuck = f"{message}, and is stuck in its end: its node has not removed it in its grace period"
            return self._lose(Ending.STUCK, "unreachable", stuck)
        self.ending = ending
        if self._leaving_told:
            return ()
        self._leaving_told = True
        return (Leaving(ending, message, pod.delete_by),)

    def _how_it_went(self) -> tuple[Ending, LostCause, str]:
        pod = self.last or PodView()
        return _disruption(pod) or (Ending.DELETED, "unreachable", f"{_who(pod)} was deleted by somebody else")

    def _lose(self, ending: Ending, cause: LostCause, message: str) -> tuple[PodEvent, ...]:
        self.ending, self._over = ending, True
        return (Lost(cause, message),)


def _standing(pod: PodView, events: Sequence[EventView]) -> PodEvent:
    """Return where a pod stands that nobody asked to end."""
    if not pod.node:
        return Unplaced()
    if held_up(pod) is not None:
        return Unplaced(held_up=True)
    if any(one.name == ENVIRONMENT_CONTAINER and one.init and one.state == "running" for one in pod.containers):
        return Preparing(f"Installing the packages of the Function in {_who(pod)}")
    running = any(one.state == "running" for one in _mains(pod))
    if running and pod.pod_ip:
        return Running(pod.pod_ip)
    if running or pod.phase == "Running":
        return Starting(LOADING)
    steps = [event.reason for event in events if event.reason in _STEPS]
    if steps and steps[0] == "Pulling":
        return Starting(PULLING_IMAGE)
    return Starting(CREATING_CONTAINER if pod.containers or steps else SCHEDULED)


def held_up(pod: PodView) -> ContainerView | None:
    """Return the container that its kubelet tries to start again and again."""
    troubles = IMAGE_REASONS | _SETUP_REASONS
    return next((one for one in pod.containers if one.state == "waiting" and one.reason in troubles), None)


def _how_it_failed(pod: PodView) -> tuple[Ending, LostCause, str]:
    disruption = _disruption(pod)
    dead = _main_terminated(pod)
    if dead is not None and dead.reason == "OOMKilled":
        where = f"its container's memory limit was reached; {_MEMORY_ADVICE}"
        return Ending.MEMORY, "memory", f"{_who(pod)} was killed because {where}"
    if pod.reason in _FAILURES or pod.reason.startswith("OutOf"):
        refused = (Ending.REFUSED, f"was refused by its kubelet ({pod.reason}): something else took what it was to get")
        ending, how = _FAILURES.get(pod.reason, refused)
        return ending, "unreachable", f"{_who(pod)} {how}{_quoted(pod.message)}"
    if disruption is not None:
        return disruption
    if pod.delete_by is not None:
        return Ending.DELETED, "unreachable", f"{_who(pod)} was deleted by somebody else"
    if dead is None:
        dead = next((one for one in pod.containers if one.init and one.exit_code), None)
    if dead is None:
        why = f" ({pod.reason})" if pod.reason else ""
        return Ending.CRASHED, "exit", f"{_who(pod)} ended{why}{_quoted(pod.message)}"
    return _crash(pod, dead)


def _disruption(pod: PodView) -> tuple[Ending, LostCause, str] | None:
    """Return who ended a pod and why, where a condition says so."""
    found = pod.conditions.get("DisruptionTarget")
    if found is not None and found.status == "True":
        ending, how = _DISRUPTIONS.get(found.reason, (Ending.EVICTED, f"was disrupted ({found.reason})"))
        return ending, "unreachable", f"{_who(pod)} {how}{_quoted(found.message)}"
    stopped = pod.conditions.get(_STOPPED_BY_KUEUE)
    if stopped is not None and stopped.status == "True":
        how = f"was ended by Kueue, which took its quota back ({stopped.reason})"
        return Ending.PREEMPTED, "unreachable", f"{_who(pod)} {how}{_quoted(stopped.message)}"
    return None


def _crash(pod: PodView, dead: ContainerView) -> tuple[Ending, LostCause, str]:
    code = dead.exit_code if dead.exit_code is not None else -1
    number = dead.signal or (code - 128 if 128 < code < 128 + 65 else None)
    if number is not None:
        killed = f"{_who(pod)} was killed by {_signal_name(number)}"
        if number == signals.SIGKILL:
            killed += f"; if memory ran out on its node, {_MEMORY_ADVICE}"
        return Ending.CRASHED, "signal", killed + _quoted(dead.message)
    if dead.reason in ("StartError", "ContainerCannotRun"):
        wrong = "could not be started: is there the worker's Python, with this package, in its image?"
        return Ending.CRASHED, "exit", f"{_who(pod)} {wrong}{_quoted(dead.message)}"
    return Ending.CRASHED, "exit", f"{_who(pod)} ended with exit code {code}{_quoted(dead.message)}"


def _environment_failed(pod: PodView) -> str | None:
    """Return what was said where the Function's environment cannot be made, however often one tries."""
    for one in pod.containers:
        if (
            one.init
            and one.name == ENVIRONMENT_CONTAINER
            and one.state == "terminated"
            and one.exit_code == EXIT_FAILED
        ):
            return one.message.strip() or f"its environment could not be made by {_who(pod)}"
    return None


def _mains(pod: PodView) -> list[ContainerView]:
    """Return the worker's container, or, in a pod that was shaped by others, all that are not for its start."""
    mains = [one for one in pod.containers if not one.init]
    return [one for one in mains if one.name == WORKER_CONTAINER] or mains


def _main_terminated(pod: PodView) -> ContainerView | None:
    dead = [one for one in _mains(pod) if one.state == "terminated"]
    # Where several ended, the one that was killed for memory, or ended badly, took the others with it.
    return min(dead, key=lambda one: (one.reason != "OOMKilled", one.exit_code == 0), default=None)


def _who(pod: PodView) -> str:
    where = f" on node {pod.node}" if pod.node else ""
    return f"the worker's pod {pod.name}{where}"


def _quoted(message: str) -> str:
    shown = " ".join(message.split())
    return f" ({shown[:300]}{'…' if len(shown) > 300 else ''})" if shown else ""


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
