"""One request to the cluster: from asking, through its pod, to the end of both."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Protocol

from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.fairness import Stage, Standing
from lancegpu_sql.placement.kubernetes.marks import Mark
from lancegpu_sql.placement.request import (
    Closing,
    Gone,
    PlacementEvent,
    RequestState,
    RequestStory,
    Waiting,
    Wanted,
    WorkerRequest,
)

_log = logging.getLogger(__name__)
_arrivals = itertools.count()


class Site(Protocol):
    """What a ticket needs of its placement."""

    def reassign(self, ticket: KubernetesTicket) -> None:
        """Say anew for whom its pod works."""

    def rest(self, ticket: KubernetesTicket) -> None:
        """Say that its pod does not work for anybody."""

    def begin_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Tell its pod to end."""

    def finish_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Return when its pod is gone."""


class KubernetesTicket:
    """One request to a Kubernetes placement; what the dispatcher calls, it calls from its loop."""

    def __init__(self, site: Site, request: WorkerRequest, listener: Listener, charge: Charge) -> None:
        self.request = request
        self.charge = charge
        self.stage = Stage.HELD
        self.arrival = next(_arrivals)
        self.attempt = self.mishaps = self.late_starts = 0
        self.waiting: Waiting | None = None
        self.job_id, self.owner = request.job_id, request.owner
        self._listener = listener
        self._site = site
        self._lock = threading.Lock()
        self._story = RequestStory(request.request_id)
        self._gone = threading.Event()
        self._busy = True
        self._wanted = self._wanted_told = False

    @property
    def wanted(self) -> bool:
        """Whether another request waits, right now, for what this one holds."""
        return self._wanted

    @property
    def pod_name(self) -> str:
        """The name of its pod; another request's, made for the same kind of worker, may have become its own."""
        return self.charge.name

    @property
    def state(self) -> RequestState:
        """Where the request stands, as far as the placement knows."""
        return self._story.state

    @property
    def is_over(self) -> bool:
        """Whether it has ended or is ending."""
        return self.state.ended or self.state is RequestState.CLOSING

    def assign(self, job_id: str, owner: str) -> None:
        """Name the job that uses the worker from now on, for the messages of those who wait behind it."""
        self.job_id, self.owner, self._busy = job_id, owner, True
        self._site.reassign(self)

    def idle(self) -> None:
        """Say that nobody uses the worker for now: whoever makes room in the cluster may move it."""
        self._busy = False
        self._site.rest(self)

    @property
    def mark(self) -> Mark:
        """What its pod says of itself."""
        return Mark(self.job_id, self.owner, self.request.asked_at, self._busy)

    def release(self, *, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """End the worker, or withdraw the request, and return when its pod is gone."""
        if self.begin_release(grace_seconds):
            self.finish_release(grace_seconds)
        else:
            self._gone.wait()

    def begin_release(self, grace_seconds: float) -> bool:
        """Tell the pod to end; False where somebody else does, or it has ended. True obliges to finish it."""
        with self._lock:
            if self.is_over:
                return False
            self._story.meet(Closing())
        self._site.begin_release(self, grace_seconds)
        return True

    def finish_release(self, grace_seconds: float) -> None:
        """Wait for the pod to be gone."""
        try:
            self._site.finish_release(self, grace_seconds)
        finally:
            self._story.meet(Gone())
            self._gone.set()

    def standing(self) -> Standing:
        """Return where it stands among others."""
        gpu_class = self.request.gpu_class
        waiting = self.waiting
        return Standing(
            id=self.request.request_id,
            job_id=self.job_id,
            gpu_class="" if gpu_class is None else gpu_class.name,
            gpus=self.request.gpus,
            asked_at=self.request.asked_at,
            stage=Stage.LEAVING if self.is_over else self.stage,
            arrival=self.arrival,
            shape=self.charge.shape,
            for_room=waiting is None or (waiting.reason in ROOM_REASONS and waiting.can_be_met is not False),
            idle=not self._busy,
            max_workers=None if gpu_class is None else gpu_class.max_workers,
        )

    def wait(self, waiting: Waiting) -> None:
        """Say why there is no worker yet, if that is news."""
        if waiting != self.waiting and self.tell(waiting):
            self.waiting = waiting

    def want(self, wanted: bool) -> None:
        """Say whether others wait for what it holds; to one that is said to wait though it has its node, once it starts."""
        self._wanted = wanted
        news = wanted and not self._wanted_told
        if not wanted:
            self._wanted_told = False
        elif news and self.state in (RequestState.STARTING, RequestState.READY):
            self._wanted_told = self.tell(Wanted())

    def tell(self, event: PlacementEvent) -> bool:
        """Hand an event out, unless the request is over."""
        with self._lock:
            if self.is_over:
                return False
            self._story.meet(event)
            if self.state.ended:
                self._gone.set()
        try:
            self._listener(event)
        except Exception:
            # One listener's fault must not keep others from what they wait for.
            _log.exception("the listener of request %s failed on %r", self.request.request_id, event)
        return True


ROOM_REASONS = frozenset({"in_use", "claim", "other_resource", "max_workers", "quota", "older_request"})
"""Why a request waits that starts when another worker ends."""
