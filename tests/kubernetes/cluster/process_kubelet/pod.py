"""One pod's life on this node: an actor with a thread and an inbox of its own."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cluster.api import Api, ApiError
from cluster.process_kubelet import environment, probes, status, volumes
from cluster.process_kubelet.container import CREATING, CannotStart, Container
from cluster.process_kubelet.devices import DevicePool, Devices, NoDevices, variables
from cluster.process_kubelet.simulation import NOT_STARTED, SIMULATE, Simulation

Document = Mapping[str, Any]
RETRY_SECONDS = 0.5
PROBE_SECONDS = 10.0
DEFAULT_GRACE_SECONDS = 30.0


class Host(Protocol):
    """What a pod needs of its node."""

    name: str
    api: Api
    devices: DevicePool
    base_environment: Mapping[str, str]

    def address_told(self, pod_ip: str) -> str: ...
    def look_up(self, namespace: str, kind: str, name: str) -> Mapping[str, str] | None: ...


@dataclass(frozen=True)
class Changed:
    """The pod's object is another; a deletion timestamp may be on it."""

    pod: Document


@dataclass(frozen=True)
class Gone:
    """The pod's object is no more."""


@dataclass(frozen=True)
class Ended:
    """A container's process ended."""

    container: Container
    status: int


class PodRun:
    """Runs the containers, and reports what changes."""

    def __init__(self, host: Host, pod: Document, pod_ip: str, folder: Path) -> None:
        self._host, self._pod, self.ip, self._folder = host, pod, pod_ip, folder
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self._uid: str = pod["metadata"]["uid"]
        self.inbox: queue.SimpleQueue[Changed | Gone | Ended] = queue.SimpleQueue()
        folder.mkdir(parents=True)
        spec = pod["spec"]
        self._restarts: str = spec.get("restartPolicy", "Always")
        self._first = [Container(one, self.log(one["name"])) for one in spec.get("initContainers", ())]
        self._first_told = tuple(self._first)
        self._containers = [Container(one, self.log(one["name"])) for one in spec["containers"]]
        self._devices: Devices = {}
        self._started_at = status.now()
        self._since: dict[str, tuple[str, str]] = {}
        self._reported: Document = {}
        self._verdict: tuple[str, str] | None = None  # reason and message of a failure that is the pod's own
        self._disruption: str | None = None
        self._kill_at: float | None = None
        self._report_at: float | None = None  # when to try again what an API server that is away was to be told
        self._stopping = self._gone = False
        self._thread = threading.Thread(target=self._run, name=f"pod {self.namespace}/{self.name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def log(self, container: str) -> Path:
        """What a container has printed."""
        return self._folder / f"{container}.log"

    @property
    def container_names(self) -> list[str]:
        """Of those that can be asked for logs."""
        return [container.name for container in self._containers]

    def _run(self) -> None:
        try:
            self._simulate(self._pod)
            with suppress(NoDevices):
                self._devices = self._admitted()
            while not self._over():
                self._start_due()
                self._probe_due()
                self._report()
                self._wait()
            self._finish()
        except Exception as error:
            print(f"pod {self.name}: {error!r}", file=sys.stderr, flush=True)
            raise
        finally:
            for container in [*self._first, *self._containers]:
                container.kill()
            self._host.devices.give_back(self._devices)

    def _admitted(self) -> Devices:
        """The pod's devices; a kubelet refuses a pod whose devices it has not."""
        if self._simulation is Simulation.ADMISSION_ERROR:
            self._verdict = (
                "UnexpectedAdmissionError",
                "Allocate failed due to simulated device failure, which is unexpected",
            )
        try:
            return {} if self._verdict else self._host.devices.take(self._pod)
        except NoDevices as error:
            self._verdict = ("UnexpectedAdmissionError", str(error))
            raise

    def _over(self) -> bool:
        return self._gone or (self._stopping and not self._running())

    def _running(self) -> list[Container]:
        return [container for container in [*self._first, *self._containers] if container.running]

    def _start_due(self) -> None:
        if self._stopping or self._verdict:
            return
        stage = self._first[:1] or self._containers
        for container in stage:
            if container.start_at is not None and container.start_at <= time.monotonic():
                self._try_to_start(container)

    def _try_to_start(self, container: Container) -> None:
        if self._simulation in NOT_STARTED:
            reason, message = NOT_STARTED[self._simulation](container.spec.get("image", ""))
            return container.wait_because(reason, message, None)
        try:
            container.start(
                self._variables(container), self.ip, self._folder, lambda ended: self.inbox.put(Ended(container, ended))
            )
        except (environment.MissingReference, OSError) as error:
            container.wait_because("CreateContainerConfigError", str(error), RETRY_SECONDS)
        except CannotStart as error:
            container.ended(128)
            container.state = {
                "terminated": {**container.state["terminated"], "reason": "StartError", "message": str(error)}
            }
            self._after_end(container)

    def _variables(self, container: Container) -> dict[str, str]:
        def look_up(kind: str, name: str) -> Mapping[str, str] | None:
            return self._host.look_up(self.namespace, kind, name)

        facts = {"status.podIP": self.ip, "status.podIPs": self.ip, "status.hostIP": status.HOST_IP}
        places = volumes.mounts(container.spec, volumes.prepare(self._pod, self._folder / "volumes", look_up))
        declared = environment.of_container(container.spec, self._pod, facts, look_up)
        return {
            **self._host.base_environment,
            "HOSTNAME": self._pod["spec"].get("hostname", self.name),
            "HOME": str(self._folder),
            **variables(self._devices),
            **volumes.rewritten(declared, places),
        }

    def _probe_due(self) -> None:
        for container in self._running():
            if (
                container.probe is not None
                and container.probe_at is not None
                and container.probe_at <= time.monotonic()
            ):
                container.ready = probes.passes(container.probe, container.spec, self.ip)
                period = float(container.probe.get("periodSeconds", PROBE_SECONDS))
                # Once ready, it stays so as long as it runs.
                container.probe_at = None if container.ready else time.monotonic() + period

    def _wait(self) -> None:
        """Take the next message, or let the time come at which something is due."""
        due = [self._kill_at, self._report_at]
        if not (self._stopping or self._verdict):
            due += [container.start_at for container in self._first[:1] or self._containers]
            due += [container.probe_at for container in self._containers]
        times = [one for one in due if one is not None]
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        try:
            message = self.inbox.get(timeout=timeout)
        except queue.Empty:
            if self._kill_at is not None and self._kill_at <= time.monotonic():
                self._kill_at = None
                for container in self._running():
                    container.kill()
            return
        self._handle(message)

    def _handle(self, message: Changed | Gone | Ended) -> None:
        match message:
            case Ended(container, code):
                container.ended(code)
                self._after_end(container)
            case Gone():
                self._gone = True
            case Changed(pod):
                self._pod = pod
                self._simulate(pod)
                if "deletionTimestamp" in pod["metadata"]:
                    self._stop(pod["metadata"].get("deletionGracePeriodSeconds", DEFAULT_GRACE_SECONDS))

    def _after_end(self, container: Container) -> None:
        code = container.state["terminated"]["exitCode"]
        again = self._restarts == "Always" or (self._restarts == "OnFailure" and code != 0)
        if container in self._first:
            if code == 0:
                self._first.remove(container)
            elif self._restarts == "Never":
                self._verdict = ("", f"init container {container.name} ended with {code}")
            elif not self._stopping:
                container.restart_later()
        elif again and not (self._stopping or self._verdict):
            container.restart_later()
        if not self._running() and self._phase() in {"Succeeded", "Failed"}:
            self._host.devices.give_back(self._devices)

    def _stop(self, grace_seconds: float) -> None:
        kill_at = time.monotonic() + grace_seconds
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        if not self._stopping:
            self._stopping = True
            for container in self._running():
                container.terminate()

    def _simulate(self, pod: Document) -> None:
        wanted = Simulation(pod["metadata"].get("annotations", {}).get(SIMULATE, ""))
        if wanted is getattr(self, "_simulation", None):
            return
        self._simulation = wanted
        match wanted:
            case Simulation.OUT_OF_MEMORY:
                for container in self._running():
                    container.kill("OOMKilled")
            case Simulation.EVICTION:
                self._verdict = ("Evicted", "The node was low on resource: memory. Simulated.")
                self._disruption = "TerminationByKubelet"
                for container in self._running():
                    container.kill()
            case Simulation.NONE:
                for container in [*self._first, *self._containers]:
                    if container.start_at is None and not container.running and "waiting" in container.state:
                        container.state, container.start_at = CREATING, time.monotonic()

    def _phase(self) -> str:
        if self._verdict:
            return "Failed" if not self._running() else "Running"
        phase = status.phase_of([container.state for container in self._containers], self._restarts)
        if self._stopping and not self._running() and phase == "Running":
            return "Failed"
        return phase

    def _report(self) -> None:
        reason, message = self._verdict or (None, None)
        extra = [status.condition("PodReadyToStartContainers", bool(self._running()))]
        if self._disruption:
            extra.append(status.condition("DisruptionTarget", True, reason=self._disruption, message=message))
        told = status.document(
            phase=self._phase(),
            containers=[container.document() for container in self._containers],
            first=[container.document() for container in self._first_told],
            started_at=self._started_at,
            pod_ip=self._host.address_told(self.ip),
            since=self._since,
            reason=reason or None,
            message=message,
            extra_conditions=extra,
        )
        if told == self._reported:
            return
        change = {"metadata": {"uid": self._uid}, "status": told}
        try:
            self._host.api.patch("Pod", self.name, change, self.namespace, part="status")
            self._reported, self._report_at = told, None
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
        except OSError:
            self._report_at = time.monotonic() + RETRY_SECONDS

    def _finish(self) -> None:
        while not self._gone:
            try:
                self._report()
                self._host.api.delete("Pod", self.name, self.namespace, grace_seconds=0, uid=self._uid)
                found = self._host.api.get("Pod", self.name, self.namespace)
            except OSError:
                time.sleep(RETRY_SECONDS)
                continue
            # A finalizer that goes in the same moment can leave the object with its old grace: asked again, as a kubelet does.
            self._gone = found is None or found["metadata"]["uid"] != self._uid
            if not self._gone:
                time.sleep(RETRY_SECONDS)
