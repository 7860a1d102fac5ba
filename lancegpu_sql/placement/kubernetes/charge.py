"""One pod of a placement, with its Secret, from the decision to make it to its end."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import threading
from dataclasses import dataclass, field
from typing import Any

from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.failing_nodes import preferring_others
from lancegpu_sql.placement.kubernetes.household import PLACEMENT_LABEL, Household
from lancegpu_sql.placement.kubernetes.lifecycle import PodStory
from lancegpu_sql.placement.kubernetes.manifest import claim_template, worker_pod
from lancegpu_sql.placement.kubernetes.marks import ASKED_LABEL, Mark, Marks, annotations_of, asked_text
from lancegpu_sql.placement.kubernetes.names import QUEUE_LABEL, worker_name
from lancegpu_sql.placement.kubernetes.preparing import LOCK_VOLUME
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.request import WorkerRequest


@dataclass(eq=False)
class Charge:
    """A pod.

    Requests of one shape may exchange their pods: what a worker is for is told to it later. So a pod is not a part of
    a request, and what happens to it is looked up by its uid.
    """

    name: str
    body: dict[str, Any]
    """Its manifest, until it was made."""
    shape: str
    token: str = field(default_factory=lambda: os.urandom(32).hex(), repr=False)
    lock: str | None = field(default=None, repr=False)
    """The packages of its environment, where it has its own."""
    uid: str = ""
    view: PodView | None = None
    story: PodStory = field(default_factory=PodStory)
    given_up: threading.Event = field(default_factory=threading.Event)
    """Nobody has a use for it any more."""
    sent: threading.Event = field(default_factory=threading.Event)
    """The attempts to make it have ended, one way or the other."""
    gone: threading.Event = field(default_factory=threading.Event)
    """It is no more, and what it held is free."""
    retry: threading.Event = field(default_factory=threading.Event)
    """Something has changed that kept it from being made."""
    marks: Marks = field(default_factory=Marks)
    template: dict[str, Any] | None = None
    """The claim template that it refers to, where its class has one."""
    has_secret: bool = False
    """There may be one: the answer to the call that makes it can be lost."""
    secret_made: bool = False
    leaving: bool = False
    placed: bool = False
    placed_at: float | None = None
    """When it got its node, on this process's clock."""
    not_before: float = 0.0
    """When it may be made, on the same clock."""
    avoided: tuple[str, ...] = ()
    """The nodes that it keeps off, for what they did to others."""
    knocking: bool = False
    late: bool = False
    """It has had its time to start."""


def charge_for(
    request: WorkerRequest, config: KubernetesConfig, household: Household, database: str, attempt: int
) -> Charge:
    """Return a pod for a request, that is yet to be made.

    Raises
    ------
    InvalidPlacement
        No pod can be made of the request: no image, one that is not allowed, …
    """
    name = worker_name(request, attempt)
    placement = household.placement
    body = worker_pod(request, config, name=name, secret_name=name, owner=None, database=database, placement=placement)
    body = preferring_others(body, request.avoid)
    body["metadata"]["labels"] |= {PLACEMENT_LABEL: placement, ASKED_LABEL: asked_text(request.asked_at)}
    template = None
    if request.gpu_class is not None:
        template = claim_template(request.gpu_class, request.gpus, owner=None, database=database, placement=placement)
    if template is not None:
        template["metadata"]["labels"][PLACEMENT_LABEL] = placement
    marks = Marks(Mark(request.job_id, request.owner, request.asked_at), annotations_of(request.gpu_class))
    lock = None if request.environment is None else request.environment.lock
    return Charge(name, body, shape_of(body), marks=marks, template=template, lock=lock)


def shape_of(body: dict[str, Any]) -> str:
    """Return what two pods have in common that can stand for each other: all but names and labels, the queue's excepted."""
    spec = copy.deepcopy(body["spec"])
    for container in spec["containers"]:
        for variable in container.get("env", ()):
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret is not None and variable["name"].startswith("LANCEGPU_WORKER_"):
                secret["name"] = ""  # the pod's own; a Function's may not be another's
    for volume in spec.get("volumes", ()):
        if volume["name"] == LOCK_VOLUME:
            volume["secret"]["secretName"] = ""
    queue = body["metadata"].get("labels", {}).get(QUEUE_LABEL)
    return hashlib.sha256(json.dumps([spec, queue], sort_keys=True).encode()).hexdigest()
