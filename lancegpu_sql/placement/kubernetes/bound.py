"""Why a pod that has a node does not serve yet."""

from __future__ import annotations

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.lifecycle import IMAGE_REASONS, Ending, PodStory, held_up
from lancegpu_sql.placement.kubernetes.pool import is_young
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.kubernetes.wording import quoted
from lancegpu_sql.placement.request import Lost

_SETUP_TROUBLES = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources")


def ended_verdict(case: Case) -> Verdict:
    """Say how a pod ended that was to serve: another one takes its place."""
    story = PodStory()
    message = next((event.message for event in story.observe(case.pod) if isinstance(event, Lost)), "the pod ended")
    if story.ending is Ending.DEVICE_FAILED:
        node = case.pod.node or "its node"
        advice = f"another pod is made, and {node} is avoided if this happens there again; look at its device plugin"
        return Verdict("device_failed", f"{message}; {advice}")
    return Verdict("starting", f"{message}; another pod is made")


def bound_verdict(case: Case) -> Verdict:
    """Say how far the start of a pod on its node is."""
    pod = case.pod
    node = case.cluster.node(pod.node)
    held = held_up(pod)
    if held is not None and held.reason in IMAGE_REASONS:
        return _image(pod, held.image, held.reason, held.message)
    failed = sorted({name for one in pod.containers for name in one.unhealthy_devices})
    if failed:
        message = f"a device ({', '.join(failed)}) of the worker on node {pod.node} is reported unhealthy"
        return Verdict("device_failed", f"{message}; look at the device plugin there, then reset or replace it")
    if node is not None and node.ready != "True" and is_young(node, case.now):
        message = f"the worker's pod was placed on node {pod.node}, which is new and has yet to come up"
        return Verdict("node_starting", message, True)
    if node is not None and node.ready != "True":
        message = f"the worker's pod was placed on node {pod.node}, which is not ready any more"
        return Verdict("not_ready", f"{message}; it is replaced once the cluster gives the node up")
    running = any(one.state == "running" for one in pod.containers if not one.init)
    if running or pod.phase == "Running":
        return Verdict("starting", f"the worker runs on node {pod.node} and has yet to load the Function", True)
    trouble = next((event for event in case.cluster.events_of(pod) if event.reason in _SETUP_TROUBLES), None)
    if trouble is not None:
        message = f"node {pod.node} cannot set the worker's pod up yet ({trouble.reason}): {quoted(trouble.message)}"
        return Verdict("starting", message, None)
    waiting = next((one for one in pod.containers if one.state == "waiting" and one.message), None)
    if waiting is not None:
        message = f"node {pod.node} cannot start the worker's container ({waiting.reason}): {quoted(waiting.message)}"
        return Verdict("starting", message, None)
    doing = "pulls the image and makes" if pod.containers else "has yet to take up"
    return Verdict("starting", f"node {pod.node} {doing} the worker's container", True, case.unreadable("events"))


def _image(pod: PodView, image: str, reason: str, message: str) -> Verdict:
    says = f"; the kubelet says {quoted(message)}" if message else ""
    if reason == "CreateContainerConfigError":
        what = f"image {image!r} cannot be run on node {pod.node}: it wants to run as root (build it for another user), or "
        what += "a Secret or ConfigMap is missing that the class or one of the Function's secrets names"
        return Verdict("image", f"{what}{says}")
    if reason == "InvalidImageName":
        return Verdict(
            "image",
            f"{image!r} is no valid image name; correct it where it is named, by the Function or its class{says}",
            False,
        )
    if reason == "ErrImageNeverPull":
        return Verdict("image", f"node {pod.node} does not have the image {image!r} and may not pull it{says}")
    what = (
        f"node {pod.node} cannot pull the image {image!r}: check its name, that the registry can be reached from there"
    )
    return Verdict("image", f"{what}, and the class's image_pull_secrets{says}")
