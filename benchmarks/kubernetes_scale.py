"""What a process costs that holds a thousand requests for GPUs of a cluster of 500 nodes, and what it asks of the API server.

A control plane of the tests (real etcd, API server, scheduler and controllers) with 500 nodes of one GPU that are only
objects, kept by kwok, and one process as an agent is: a database, its placement, and 20 jobs that want 50 workers each. Half of
them wait, each told why, while the others compute; up to a fifth of the workers give their GPU to somebody who waits for it,
and their jobs ask again.

The workers are only objects, too: at their addresses, all of this machine, one process stands in for their doors and shows
each one's certificate. No batch is sent. The calls are those that the API server's audit log has of the agent's user.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters import Api, ControlPlane, Kwok, control_plane, load_words

SIDE = Path(__file__).parent / "kubernetes_scale_side.py"
USER = "the-agent"
POD_ADDRESSES = "127.1.0.1/16"
NODE_SECONDS = 600
"""What heartbeats of 500 nodes cost is no matter of the agent's: they are few, and may be late."""
LATE_SECONDS = 5.0
"""How much later than a knock its worker's Secret may be heard of."""


class Doors:
    """Stands in for the doors of all workers: whoever connects is shown the certificate for the name that is asked for."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._listening = socket.create_server(("0.0.0.0", 0), backlog=1024)
        self.port = self._listening.getsockname()[1]
        self._api, self._namespace = api, namespace
        self._known: dict[str, ssl.SSLContext] = {}
        self._changed = threading.Condition()
        self._answers = ThreadPoolExecutor(16)
        for run in (self._learn, self._answer):
            threading.Thread(target=run, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._listening.close()

    def _learn(self) -> None:
        for happened, secret in self._api.watch("Secret", self._namespace):
            if happened == "ADDED":
                data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
                with tempfile.NamedTemporaryFile() as chain:
                    chain.write(b"\n".join(value for value in data.values() if value.startswith(b"-----BEGIN")))
                    chain.flush()
                    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    shown.load_cert_chain(chain.name)
                with self._changed:
                    self._known[secret["metadata"]["name"]] = shown
                    self._changed.notify_all()

    def _answer(self) -> None:
        with suppress(OSError):
            while True:
                self._answers.submit(self._greet, self._listening.accept()[0])

    def _greet(self, knock: socket.socket) -> None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.sni_callback = self._show
        with suppress(OSError), knock:
            trust.wrap_socket(knock, server_side=True).close()

    def _show(self, connection: Any, name: str | None, _: Any) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: name in self._known, LATE_SECONDS)
            shown = self._known.get(name or "")
        if shown is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = shown
        return None


def add_user(plane: ControlPlane) -> Path:
    """Let the agent's user do all; return its kubeconfig."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    plane.api.create({"kind": "ClusterRoleBinding", "metadata": {"name": USER}, "roleRef": role, "subjects": [subject]})
    return plane.user(USER)


def calls_of_the_agent(plane: ControlPlane) -> Counter[str]:
    """Return what the API server has noted of that user, each call once."""
    calls = {call["auditID"]: f"{call['verb']} {call['objectRef']['resource']}" for call in plane.calls_of(USER)}
    return Counter(calls.values())


def report(measured: dict[str, Any], calls: Counter[str]) -> None:
    """Print what it took, with the bars."""
    pods = calls["create pods"]
    print(
        f"  {measured['requests']} requests of {measured['jobs']} jobs, {pods} pods made in {measured['seconds']:.0f} s; at "
        f"most {measured['most_ready']} served and {measured['most_waiting']} waited at a time; {measured['given_back']} were "
        f"given back to others; {measured['told']} times a request was told why it waits"
    )
    print(
        f"  agent: {measured['cores']:.2f} cores on average   bar: ≤ 1 (busiest 5 s: {measured['busiest_cores']:.2f})"
    )
    print(
        f"  agent: {measured['peak_bytes'] / 1e6:.0f} MB at most   bar: ≤ 300 MB "
        f"({measured['idle_bytes'] / 1e6:.0f} MB before the first request)"
    )
    print(f"  API server: {calls.total() / pods:.2f} calls a pod   bar: ≤ 6 ({calls.total()} calls, by its audit log)")
    print("    " + ", ".join(f"{number} {call}" for call, number in calls.most_common()))


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000, help="workers wanted, by all jobs together")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument(
        "--batch-seconds", type=float, default=3.0, help="how long a worker pretends to compute a batch"
    )
    parser.add_argument("--queries-per-second", type=float, default=100.0, help="how fast the agent may call")
    chosen = parser.parse_args()
    with control_plane(node_grace_seconds=NODE_SECONDS) as plane:
        kwok = Kwok(plane, pod_addresses=POD_ADDRESSES, lease_seconds=NODE_SECONDS)
        doors = Doors(plane.api, "default")
        try:
            kwok.add([f"gpu-{number}" for number in range(chosen.nodes)], gpus=1, labels={"pool": "gpus"})
            print(
                f"{load_words()}; {chosen.nodes} kwok nodes; workers are only objects, their doors stand-ins",
                flush=True,
            )
            command = [
                sys.executable, str(SIDE), str(add_user(plane)), str(doors.port), str(chosen.pods), str(chosen.jobs),
                str(chosen.batch_seconds), str(chosen.queries_per_second),
            ]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            report(json.loads(done.stdout.splitlines()[-1]), calls_of_the_agent(plane))
        finally:
            doors.close()
            kwok.stop()


if __name__ == "__main__":
    main()
