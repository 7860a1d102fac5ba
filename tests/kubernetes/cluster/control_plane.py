"""A control plane on 127.0.0.1: etcd, kube-apiserver, kube-scheduler and kube-controller-manager, ready in seconds."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import kubeconfig, processes
from cluster.api import Api, ApiError
from cluster.build import Programs
from cluster.certificates import Authority, Certificate

HOST = "127.0.0.1"
SERVICES = "10.96.0.0/16"
NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
ADMINISTRATORS = "system:masters"
READY_SECONDS = 60.0
# No event tells that a port answers.
POLL_SECONDS = 0.02
# 40 s by default, which no test should wait for.
NODE_GRACE_SECONDS = 8

# Calls of the cluster's own parts are left out: what is counted are those of what is tested.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "None",
            "userGroups": [
                "system:nodes",
                "system:serviceaccounts:kube-system",
                ADMINISTRATORS,
                "system:unauthenticated",
            ],
        },
        {"level": "None", "users": ["system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]},
        {"level": "Metadata"},
    ],
}


class ControlPlane:
    """The processes, certificates and kubeconfigs of one cluster, all in one folder.

    A node that was silent for `node_grace_seconds` is `Unknown`.
    """

    def __init__(self, folder: Path, programs: Programs, node_grace_seconds: int = NODE_GRACE_SECONDS) -> None:
        self.folder, self.programs, self._node_grace_seconds = folder, programs, node_grace_seconds
        self.authority = Authority(folder / "pki")
        etcd, peer, api, scheduler, controllers = free_ports(5)
        self._ports = {"etcd": etcd, "peer": peer, "kube-scheduler": scheduler, "kube-controller-manager": controllers}
        self._api_port = api
        self.server = f"https://{HOST}:{api}"
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._commands = self._write_commands()
        self.kubeconfig = self.user("admin", groups=(ADMINISTRATORS,))
        self.api = Api(self.kubeconfig)

    def start(self) -> None:
        """Start everything; returns when pods can be created and are scheduled."""
        self._start("etcd")
        self.start_api_server()
        self._start("kube-controller-manager")
        self._start("kube-scheduler")
        self._wait("kube-controller-manager", self._healthy)
        self._wait("kube-scheduler", self._healthy)
        self.api.until("ServiceAccount", "default", bool, "default", seconds=READY_SECONDS)

    def start_api_server(self) -> None:
        """Start the API server, for the first time or after `stop_api_server`: its address stays."""
        self._start("kube-apiserver")
        self._wait("kube-apiserver", lambda _: self.api.raw("GET", "readyz") == b"ok")

    def stop_api_server(self) -> None:
        """Kill the API server alone: connections break, and nobody answers until it is started again."""
        processes.end([self._started.pop("kube-apiserver")], grace_seconds=0)

    def restart_controllers(self) -> None:
        """Let them see at once what kinds of objects there are now: of new ones they hear within half a minute only."""
        processes.end([self._started.pop("kube-controller-manager")], grace_seconds=0)
        self._start("kube-controller-manager")
        self._wait("kube-controller-manager", self._healthy)

    def stop(self) -> None:
        """End everything, by process id; the API server at once, since it would wait for all who watch."""
        if "kube-apiserver" in self._started:
            self.stop_api_server()
        processes.end(self._started.values())
        self._started.clear()

    def certificate(self, user: str, *, groups: tuple[str, ...] = ()) -> Certificate:
        """What proves to be a user of these groups."""
        return self.authority.issue(f"user-{user.replace(':', '-')}", user, groups=groups)

    def user(self, name: str, *, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig for a user of these groups, who may do what RBAC lets them."""
        path = self.folder / f"{name.replace(':', '-')}.kubeconfig"
        return kubeconfig.write(path, self.server, self._ca, user=self.certificate(name, groups=groups))

    def bearer(self, name: str, token: str) -> Path:
        """A kubeconfig for a token, such as one of a service account."""
        return kubeconfig.write(self.folder / f"{name}.kubeconfig", self.server, self._ca, token=token)

    def calls_of(self, user: str) -> list[dict[str, Any]]:
        """What the audit log has noted of a user, but for a line that is being written. A refused token has no user's name."""
        lines = self._audit_log.read_text().rpartition("\n")[0].splitlines()
        return [call for line in lines if (call := json.loads(line))["user"].get("username") == user]

    @property
    def _audit_log(self) -> Path:
        """One JSON line for each call that neither an administrator nor a part of the cluster made."""
        return self.folder / "audit.log"

    @property
    def _ca(self) -> Path:
        return self.authority.own.certificate

    def _start(self, name: str) -> None:
        log = self.folder / f"{name}.log"
        self._started[name] = processes.start(self._commands[name], log, folder=self.folder)

    def _wait(self, name: str, answers: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            status = self._started[name].poll()
            if status is not None:
                raise RuntimeError(f"{name} ended with {status}: see {self.folder / name}.log")
            try:
                if answers(name):
                    return
            except (OSError, ApiError):
                pass  # it is on its way
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"{name} was not ready in {READY_SECONDS} s: see {self.folder / name}.log")

    def _healthy(self, name: str) -> bool:
        # These two make a certificate of their own at each start.
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        url = f"https://{HOST}:{self._ports[name]}/healthz"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        with opener.open(url, timeout=1) as response:
            return bool(response.read() == b"ok")

    def _write_commands(self) -> dict[str, list[str]]:
        """The command lines, with what they read from files."""
        names = tuple(f"DNS:{name}" for name in NAMES)
        serving = self.authority.issue("apiserver", "kube-apiserver", addresses=(f"IP:{HOST}", "IP:10.96.0.1", *names))
        to_nodes = self.authority.issue("to-nodes", "apiserver-to-nodes", groups=(ADMINISTRATORS,))
        signing = self.authority.signing_key("service-accounts")
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        return {
            "etcd": self._etcd(),
            "kube-apiserver": self._api_server(serving, to_nodes, signing, policy),
            "kube-scheduler": self._component("kube-scheduler"),
            "kube-controller-manager": [
                *self._component("kube-controller-manager"),
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={signing.key}",
                f"--root-ca-file={self._ca}",
                f"--cluster-signing-cert-file={self._ca}",
                f"--cluster-signing-key-file={self.authority.own.key}",
                f"--node-monitor-grace-period={self._node_grace_seconds}s",
                "--node-monitor-period=1s",
            ],
        }

    def _etcd(self) -> list[str]:
        client, peer = (f"http://{HOST}:{self._ports[name]}" for name in ("etcd", "peer"))
        return [
            self.programs["etcd"],
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # nothing of it outlives the run
        ]

    def _api_server(self, serving: Certificate, to_nodes: Certificate, signing: Certificate, policy: Path) -> list[str]:
        return [
            self.programs["kube-apiserver"],
            f"--etcd-servers=http://{HOST}:{self._ports['etcd']}",
            f"--bind-address={HOST}",
            f"--secure-port={self._api_port}",
            "--endpoint-reconciler-type=none",  # a Service may not point to a loopback address
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self._ca}",
            f"--kubelet-client-certificate={to_nodes.certificate}",
            f"--kubelet-client-key={to_nodes.key}",
            f"--service-account-key-file={signing.certificate}",
            f"--service-account-signing-key-file={signing.key}",
            f"--service-account-issuer={self.server}",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
            "--profiling=false",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._audit_log}",
        ]

    def _component(self, name: str) -> list[str]:
        """What the scheduler and the controllers have in common: an identity, a port, no rival, no brake."""
        return [
            self.programs[name],
            f"--kubeconfig={self.user(f'system:{name}')}",
            "--leader-elect=false",
            f"--bind-address={HOST}",
            f"--secure-port={self._ports[name]}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are held until the last is known, so that they differ."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
