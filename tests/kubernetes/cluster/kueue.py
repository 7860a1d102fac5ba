"""Kueue itself beside a control plane: its own programs, CRDs and webhooks, with the integration of plain pods."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster import processes
from cluster.api import Object
from cluster.build import Programs
from cluster.control_plane import HOST, POLL_SECONDS, READY_SECONDS, ControlPlane, free_ports

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The webhooks of what is used here; others are about kinds that this cluster has not.
_WEBHOOKS = ("-pod", "clusterqueue", "localqueue", "resourceflavor", "workload", "cohort")
_NOT_OURS = ("kube-system", "kueue-system")

# Kueue reads the certificate of its metrics from a path in /etc that is compiled into it: it is given an /etc of its own.
_WITH_OWN_ETC = """
mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && ln -s "$1" /etc/kueue/metrics/certs && shift && exec "$@"
"""


def why_not() -> str | None:
    """Why Kueue cannot run here; None where it can."""
    path = "/etc/kueue/metrics/certs, a path compiled into Kueue"
    if os.geteuid() != 0:
        return f"only root can give a process {path}"
    if shutil.which("unshare") is None:
        return f"no unshare on the PATH (it gives a process {path})"
    mounted = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/etc"], capture_output=True, check=False
    )
    return None if mounted.returncode == 0 else f"this root may not mount, and so not make {path}"


class Kueue:
    """Starts it, for the whole cluster, and ends it."""

    def __init__(self, plane: ControlPlane, programs: Programs) -> None:
        self._plane, self._programs, self._folder = plane, programs, plane.folder / "kueue"
        self._hooks, self._probes, metrics = free_ports(3)
        certificates = self._certificates()
        self._config = self._folder / "config.json"
        self._config.write_text(json.dumps(self._configuration(certificates, metrics)))
        self._process: subprocess.Popen[bytes] | None = None
        self._certificates_folder = certificates

    def start(self) -> None:
        """Start it; returns when pods that name a queue are held back."""
        self._kubectl("apply", "--server-side", *(word for path in self._programs.files[:-1] for word in ("-f", path)))
        self._kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={READY_SECONDS:.0f}s")
        self._plane.restart_controllers()  # the garbage collector ends a Workload whose pod is gone
        self._plane.api.create({"kind": "Namespace", "metadata": {"name": "kueue-system"}})
        own_etc = ["unshare", "--mount", "sh", "-c", _WITH_OWN_ETC, "sh", self._certificates_folder]
        command = [self._programs["kueue"], f"--config={self._config}", "--feature-gates=VisibilityOnDemand=false"]
        here = {"HOME": str(self._folder), "KUBECONFIG": str(self._plane.kubeconfig)}
        environment = {**here, "PATH": os.environ["PATH"]}
        self._process = processes.start([*own_etc, *command], self.log, env=environment)
        self._wait(self._is_ready)
        for document in self._webhooks():
            self._plane.api.create(document)

    def stop(self) -> None:
        """End it, and hold back no more pods."""
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            for found in self._plane.api.list(kind):
                if found["metadata"]["name"].startswith("kueue-"):
                    self._plane.api.delete(kind, found["metadata"]["name"])
        if self._process is not None:
            processes.end([self._process])

    @property
    def log(self) -> Path:
        """What it has printed."""
        return self._folder / "kueue.log"

    def _certificates(self) -> Path:
        folder = self._folder / "certificates"
        folder.mkdir(parents=True)
        issued = self._plane.authority.issue("kueue", "kueue", addresses=(f"IP:{HOST}",))
        shutil.copy(issued.certificate, folder / "tls.crt")
        shutil.copy(issued.key, folder / "tls.key")
        return folder

    def _configuration(self, certificates: Path, metrics: int) -> Object:
        elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_NOT_OURS)}
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"{HOST}:{self._probes}"},
            "metrics": {"bindAddress": f"{HOST}:{metrics}"},
            "webhook": {"host": HOST, "port": self._hooks, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 200, "burst": 400},
            "integrations": {"frameworks": ["pod"]},
            "managedJobsNamespaceSelector": {"matchExpressions": [elsewhere]},
        }

    def _webhooks(self) -> Iterator[Object]:
        """The webhooks that its manifests describe, called at the address it has here."""
        authority = base64.b64encode(self._plane.authority.own.certificate.read_bytes()).decode()
        for document in _documents(
            self._kubectl("create", "--dry-run=client", "-o", "json", "-f", self._programs.files[-1])
        ):
            document["metadata"] = {"name": f"kueue-{document['metadata']['name']}"}
            kept = [one for one in document["webhooks"] if _path(one).endswith(_WEBHOOKS)]
            for one in kept:
                url = f"https://{HOST}:{self._hooks}{_path(one)}"
                one["clientConfig"] = {"url": url, "caBundle": authority}
                if one["name"].endswith("pod.kb.io"):  # as its own installation limits it, to chosen namespaces
                    one["objectSelector"] = {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}
            yield {**document, "webhooks": kept}

    def _is_ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{HOST}:{self._probes}/readyz", timeout=1) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _wait(self, holds: Callable[[], bool]) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS
        while not holds():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kueue did not get ready: {self.log.read_text()[-2000:]}")
            time.sleep(POLL_SECONDS)

    def _kubectl(self, *arguments: str | Path) -> str:
        command = [self._plane.programs["kubectl"], "--kubeconfig", self._plane.kubeconfig]
        command += ["--cache-dir", self._folder / "kubectl", *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {arguments[0]}: {done.stderr.strip()}")
        return done.stdout


def _path(webhook: Object) -> str:
    return str(webhook["clientConfig"]["service"]["path"])


def _documents(text: str) -> Iterator[Object]:
    """JSON documents, one after another."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()
