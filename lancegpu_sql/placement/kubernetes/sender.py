"""Makes pods and ends them, however long the API server is out of reach; from threads of its own or of whoever waits."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable, InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster, JsonObject
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.crew import Crew
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.manifest import worker_secret
from lancegpu_sql.placement.kubernetes.marks import Mark
from lancegpu_sql.placement.kubernetes.refusal import explain, is_for_lack_of_quota
from lancegpu_sql.placement.kubernetes.watch import Backoff

_log = logging.getLogger(__name__)

_THREADS = 8
_LAST_TRIES_SECONDS = 10.0
"""How much longer than its grace a pod's end is waited for; then it is the cluster's business: it has been told."""

_QUOTA_PAUSE_SECONDS = 5.0
_LOG_LINES = 5


class Sender:
    """Acts on the cluster for one placement.

    Parameters
    ----------
    check
        Raises a `PlacementError` where a pod would be of no use, whatever the cluster says to it.
    """

    def __init__(
        self, cluster: Cluster, household: Household, authority: Authority, check: Callable[[], object] = bool
    ) -> None:
        self._cluster = cluster
        self._check = check
        self._household = household
        self._authority = authority
        self._crew = Crew(_THREADS, "lancegpu-kubernetes-call")
        self._templates: set[str] = set()
        self._closing = threading.Event()

    @property
    def has_templates(self) -> bool:
        """Whether claim templates were made."""
        return bool(self._templates)

    def begin(
        self,
        charge: Charge,
        on_sent: Callable[[JsonObject], object],
        on_held_up: Callable[[PlacementError], object],
        on_refused: Callable[[PlacementError], object],
    ) -> None:
        """Make a pod and its Secret, as soon as that can be; what comes of it is told from another thread."""

        def run() -> None:
            try:
                self._check()
                pod = self._make(charge, on_held_up)
                if pod is not None:
                    charge.uid = pod["metadata"]["uid"]
                    on_sent(pod)
            except PlacementError as exc:
                self._drop_secret(charge)
                on_refused(exc)
            except Exception as exc:
                _log.exception("making the pod %s failed", charge.name)
                on_refused(PlacementError(f"the pod {charge.name} could not be made: {exc!r}"))
            finally:
                charge.sent.set()

        self._crew.submit(run)

    def drop_secret(self, charge: Charge) -> None:
        """Remove a pod's Secret, soon: a container reads its environment once, when it starts."""
        self._crew.submit(lambda: self._drop_secret(charge))

    def mark(self, charge: Charge, mark: Mark) -> None:
        """Let a pod say for whom it works, and whether, soon; that it cannot be said now is no harm."""
        charge.marks.wanted = mark
        if charge.uid:
            self.submit(lambda: charge.marks.send(self._cluster, charge.name))

    def begin_end(self, charge: Charge, grace_seconds: float) -> None:
        """Tell the cluster to end a pod."""
        charge.given_up.set()
        charge.retry.set()
        charge.story.expect_end()
        charge.sent.wait()
        if charge.uid and not charge.gone.is_set():
            until = time.monotonic() + grace_seconds + _LAST_TRIES_SECONDS
            if not self._tell_to_end(charge, grace_seconds, until):
                self._crew.submit(lambda: self._tell_to_end(charge, grace_seconds, math.inf))
        self.drop_secret(charge)

    def finish_end(self, charge: Charge, grace_seconds: float) -> None:
        """Return when the pod is gone, or when the cluster, which has been told, lets one wait for too long."""
        if charge.uid:
            charge.gone.wait(grace_seconds + _LAST_TRIES_SECONDS)

    def end_soon(self, charge: Charge) -> None:
        """End a pod that nobody has a use for, or remove what is left of one that has ended by itself."""
        charge.given_up.set()
        charge.retry.set()

        def run() -> None:
            charge.sent.wait()
            self._drop_secret(charge)
            if charge.uid and not charge.gone.is_set():
                self._tell_to_end(charge, 1.0, math.inf)

        self._crew.submit(run)

    def look_after(self, charge: Charge, on_gone: Callable[[], object]) -> None:
        """Ask whether a pod is still there, soon; `on_gone` is called, from another thread, where it is not."""

        def look() -> None:
            found = self._cluster.get("Pod", charge.name)
            if found is None or found["metadata"]["uid"] != charge.uid:
                charge.gone.set()
                on_gone()

        self.submit(look)

    def read_log(self, charge: Charge, on_read: Callable[[str], object]) -> None:
        """Read the last lines that a worker has printed, soon; none where they cannot be had."""

        def read() -> None:
            try:
                text = self._cluster.log(charge.name, _LOG_LINES)
            except PlacementError:
                text = ""
            on_read(text)

        self._crew.submit(read)

    def submit(self, action: Callable[[], object]) -> None:
        """Run an action on one of the threads; faults of the cluster are left to the next time."""

        def run() -> None:
            with suppress(PlacementError):
                action()

        self._crew.submit(run)

    def close(self) -> None:
        """Begin nothing more; what a cluster that does not answer keeps is found by its labels later."""
        self._closing.set()
        self._crew.close()

    def _make(self, charge: Charge, on_held_up: Callable[[PlacementError], object]) -> JsonObject | None:
        backoff = Backoff()
        while not (charge.given_up.is_set() or self._closing.is_set()):
            try:
                owner = self._household.owner()
                if not charge.secret_made:
                    charge.has_secret = True
                    self._create("Secret", charge.name, self._secret(charge, owner))
                    charge.secret_made = True
                self._make_template(charge, owner)
                charge.body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
                return self._create("Pod", charge.name, charge.body)
            except ClusterUnreachable as exc:
                on_held_up(exc)
                charge.given_up.wait(backoff.after(exc))
            except ClusterForbidden as exc:
                if not is_for_lack_of_quota(self._cluster, charge.body, exc):
                    raise explain(self._cluster, charge.body, exc) from exc
                on_held_up(exc)
                charge.retry.wait(_QUOTA_PAUSE_SECONDS)
                charge.retry.clear()
            except ClusterRefused as exc:
                if exc.facts["status"] in (400, 404, 422):
                    raise InvalidPlacement(exc.message, **exc.facts) from exc
                raise
        return None

    def _make_template(self, charge: Charge, owner: Mapping[str, Any]) -> None:
        """Make the claim template that all workers of the class share, once."""
        if charge.template is None or charge.template["metadata"]["name"] in self._templates:
            return
        name = charge.template["metadata"]["name"]
        charge.template["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        self._create("ResourceClaimTemplate", name, charge.template)
        self._templates.add(name)

    def _create(self, kind: str, name: str, body: Mapping[str, Any]) -> JsonObject:
        try:
            return self._cluster.create(kind, body)
        except ClusterRefused as exc:
            # Names are unique: an object that exists is ours, made by a call whose answer was lost.
            found = self._cluster.get(kind, name) if exc.facts["status"] == 409 else None
            if found is not None:
                return found
            raise

    def _secret(self, charge: Charge, owner: Mapping[str, Any]) -> dict[str, Any]:
        issued = self._authority.issue(charge.name)
        return worker_secret(
            name=charge.name,
            token=charge.token,
            certificate_pem=issued.certificate_pem,
            key_pem=issued.key_pem,
            owner=owner,
            labels=self._household.labels,
            lock=charge.lock,
        )

    def _tell_to_end(self, charge: Charge, grace_seconds: float, until: float) -> bool:
        """Delete the pod; False where the cluster could not be told in time."""
        backoff = Backoff()
        # 0 would free its devices before its processes are gone.
        grace = max(1, math.ceil(grace_seconds))
        while True:
            try:
                if not self._cluster.delete("Pod", charge.name, uid=charge.uid, grace_seconds=grace):
                    charge.gone.set()
                return True
            except ClusterUnreachable as exc:
                pause = backoff.after(exc)
                if time.monotonic() + pause >= until or self._closing.wait(pause):
                    return False

    def _drop_secret(self, charge: Charge) -> None:
        backoff = Backoff()
        while charge.has_secret:
            charge.has_secret = False
            try:
                self._cluster.delete("Secret", charge.name)
            except ClusterUnreachable as exc:
                charge.has_secret = True
                if self._closing.wait(backoff.after(exc)):
                    return
            except PlacementError:
                return
