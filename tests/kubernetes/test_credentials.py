"""Credentials of a pod, which a kubelet replaces while they are used."""

from __future__ import annotations

import json
import queue
from pathlib import Path
from typing import Any

import pytest
from cluster.api import Api, Object
from cluster.running import RunningCluster

from lancegpu_sql.errors import PlacementError
from lancegpu_sql.placement.kubernetes import KubernetesConfig
from lancegpu_sql.placement.kubernetes.client import ClusterClient
from lancegpu_sql.placement.kubernetes.watch import Watch

PATIENCE_SECONDS = 60


class Heard:
    """Keeps the names of what a watch tells."""

    def __init__(self) -> None:
        self.names: queue.SimpleQueue[str] = queue.SimpleQueue()

    def changed(self, uid: str, obj: Object | None) -> None:
        """Keep the name."""
        if obj is not None:
            self.names.put(obj["metadata"]["name"])

    def listed(self) -> None:
        """Keep nothing."""

    def troubled(self, problem: PlacementError | None) -> None:
        """Keep nothing."""

    def wait_for(self, name: str) -> None:
        """Wait until it was told."""
        while self.names.get(timeout=PATIENCE_SECONDS) != name:
            pass


@pytest.fixture
def account(cluster: RunningCluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's own: the folder of its service account, which may handle ConfigMaps, and where the API server is."""
    api = cluster.client()
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
    api.create({"kind": "Role", "metadata": {"name": "pods"}, "rules": rules}, namespace)
    api.create({"kind": "RoleBinding", "metadata": {"name": "pods"}, "roleRef": role, "subjects": subjects}, namespace)
    (tmp_path / "ca.crt").write_bytes(cluster.plane.authority.own.certificate.read_bytes())
    host, _, port = cluster.plane.server.removeprefix("https://").rpartition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    return tmp_path


def token_of(api: Api, namespace: str, secret: str) -> str:
    """A token of the default account that is good as long as a Secret is there."""
    made = api.create({"kind": "Secret", "metadata": {"name": secret}}, namespace)
    bound: dict[str, Any] = {
        "kind": "Secret",
        "apiVersion": "v1",
        "name": secret,
        "uid": made["metadata"]["uid"],
    }
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    path = f"api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    return str(json.loads(api.raw("POST", path, asked))["status"]["token"])


def test_a_watch_goes_on_with_the_token_that_replaced_a_refused_one(
    cluster: RunningCluster, namespace: str, account: Path
):
    api, heard = cluster.client(), Heard()
    (account / "token").write_text(token_of(api, namespace, "old"))
    client = ClusterClient(KubernetesConfig(namespace), account_folder=account)
    assert client.inside
    watch = Watch(client, "ConfigMap", dict, heard)
    watch.start()
    client.create("ConfigMap", {"metadata": {"name": "before"}})
    heard.wait_for("before")
    (account / "token").write_text(token_of(api, namespace, "new"))
    api.delete("Secret", "old", namespace)
    # For ten seconds it would remember that it once took the old one.
    cluster.plane.stop_api_server()
    cluster.plane.start_api_server()
    client.create("ConfigMap", {"metadata": {"name": "after"}})
    heard.wait_for("after")
    watch.stop()
