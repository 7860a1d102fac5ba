"""One container of a pod: a process, and what is told of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cluster import processes
from cluster.process_kubelet.environment import expand
from cluster.process_kubelet.status import now

Document = Mapping[str, Any]

LOG_TAIL_BYTES = 2048
# A kubelet waits 10 s, 20 s, … up to 5 minutes before it starts a crashed container again.
FIRST_BACK_OFF_SECONDS = 0.5
LONGEST_BACK_OFF_SECONDS = 10.0
CREATING = {"waiting": {"reason": "ContainerCreating"}}
EVERY_ADDRESS = "0.0.0.0:"


class CannotStart(Exception):
    """The command is not there, or is none."""


class Container:
    """A process that can be started again; `start_at` is when (monotonic), None where it is not to start."""

    def __init__(self, spec: Document, log: Path) -> None:
        self.spec, self.log = spec, log
        self.name: str = spec["name"]
        self.state: Document = CREATING
        self.ready = False
        self.start_at: float | None = time.monotonic()
        self.probe_at: float | None = None
        self.restarts = 0
        self._last_state: Document = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._killed_because: str | None = None

    @property
    def running(self) -> bool:
        """Whether its process is there, as far as is known."""
        return self._process is not None

    @property
    def probe(self) -> Document | None:
        """What tells that it is ready; without one it is so once it runs."""
        found = self.spec.get("readinessProbe") or self.spec.get("startupProbe")
        return found if found and ("tcpSocket" in found or "httpGet" in found) else None

    def start(self, variables: Mapping[str, str], pod_ip: str, folder: Path, ended: Callable[[int], None]) -> None:
        """Start the process; `ended` is called with its status from a thread of its own.

        Every address of this machine is not the pod's: it gets the one it has.
        """
        words = [*self.spec.get("command", ()), *self.spec.get("args", ())]
        command = [expand(word, variables).replace(EVERY_ADDRESS, f"{pod_ip}:") for word in words]
        if not command:
            raise CannotStart("no command specified: a process node has no images to take one from")
        program = shutil.which(command[0], path=variables["PATH"])
        if program is None:
            raise CannotStart(f'exec: "{command[0]}": executable file not found in $PATH')
        self.start_at, self._killed_because = None, None
        self._process = process = processes.start([program, *command[1:]], self.log, env=variables, folder=folder)
        self.state = {"running": {"startedAt": now()}}
        self.ready = self.probe is None
        self.probe_at = None if self.ready else time.monotonic() + (self.probe or {}).get("initialDelaySeconds", 0)
        threading.Thread(target=_wait, args=(process, ended), daemon=True).start()

    def terminate(self) -> None:
        """Ask the first process to end, as a container runtime does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    def kill(self, because: str | None = None) -> None:
        """Kill all its processes; `because` is the reason told of it, such as OOMKilled."""
        if self._process is not None:
            self._killed_because = because
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def ended(self, status: int) -> None:
        """Take note of the end; a status below zero is a signal."""
        code = status if status >= 0 else 128 - status
        reason = self._killed_because or ("Completed" if code == 0 else "Error")
        began = self.state.get("running", {}).get("startedAt")
        told = {
            "exitCode": code,
            "reason": reason,
            "startedAt": began,
            "finishedAt": now(),
            "message": self._message(code),
        }
        self.state = {"terminated": told}
        self._process, self.ready, self.probe_at = None, False, None

    def restart_later(self) -> None:
        """Start again after a while that grows with each time."""
        self._last_state = self.state
        seconds = min(LONGEST_BACK_OFF_SECONDS, FIRST_BACK_OFF_SECONDS * 2**self.restarts)
        self.restarts += 1
        self.start_at = time.monotonic() + seconds
        message = f"back-off {seconds}s restarting failed container={self.name}"
        self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}

    def wait_because(self, reason: str, message: str, seconds: float | None) -> None:
        """Not now: try again after some seconds, or when something changes."""
        self.state = {"waiting": {"reason": reason, "message": message}}
        self.start_at = None if seconds is None else time.monotonic() + seconds

    def document(self) -> dict[str, Any]:
        """Its entry in the pod's status."""
        image = self.spec.get("image", "")
        return {
            "name": self.name,
            "image": image,
            "imageID": f"process://{image}",
            "containerID": f"process://{self._process.pid}" if self._process else "",
            "ready": self.ready,
            "started": self.running,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self._last_state,
        }

    def _message(self, code: int) -> str | None:
        if code == 0 or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return None
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


def _wait(process: subprocess.Popen[bytes], ended: Callable[[int], None]) -> None:
    # When the first process of a container ends, the others do as well; until it is reaped its id is nobody else's.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    ended(process.wait())
