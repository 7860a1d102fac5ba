"""A process in a pod whose service account's token is rotated, as kubelets do, and whose old one is good no more."""

from __future__ import annotations

import json
from pathlib import Path

from agents import eventually
from cluster.api import Api, ApiError, Object
from cluster.pods import RESTRICTED, ended, phase
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from gate import Gate
from suites import TESTS

# A placement in a pod: asks for a worker, waits until its token file has changed and the test says so, asks for another.
OWNER = """
import socket, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from placement_suite import Asked, request_for
from lancegpu_sql.placement import GpuClass, Ready
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
token = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
namespace = token.with_name("namespace").read_text()
placement = KubernetesPlacement(namespace, database="a pod's", in_cluster=True, image=sys.argv[2], python=sys.argv[3])
real = GpuClass(name="real", node_selector={"pool": "real"})
before = token.read_text()
for address in (sys.argv[4:6], None):
    asked = Asked(placement, request_for(real))
    asked.next(Ready)
    asked.release()
    if address is not None:
        with socket.create_connection((address[0], int(address[1]))) as gate:
            gate.sendall(b"asked once")
            gate.recv(1)
placement.close()
assert token.read_text() != before
"""


class ShortToken:
    """A token of a namespace's default account, in a Secret, good until what it is bound to is deleted."""

    def __init__(self, cluster: RunningCluster, namespace: str, name: str) -> None:
        self._cluster, self._namespace, self.name = cluster, namespace, name
        api = cluster.client()
        bound = api.create({"kind": "Secret", "metadata": {"name": name}}, namespace)
        reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": bound["metadata"]["uid"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": reference, "expirationSeconds": 600},  # the shortest that is given
        }
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        self.text: str = json.loads(api.raw("POST", path, request))["status"]["token"]

    def revoke(self) -> None:
        """End it; returns when the API server does not take it any more."""
        self._cluster.client().delete("Secret", self.name, self._namespace)
        bearer = Api(self._cluster.plane.bearer(self.name, self.text))
        eventually(lambda: refused(bearer))


def refused(api: Api) -> bool:
    """Whether the API server does not know who asks."""
    try:
        api.raw("GET", "api")
    except ApiError as error:
        return error.status == 401
    return False


EVERYTHING: Object = {
    "kind": "RoleBinding",
    "metadata": {"name": "everything"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default"}],
}


def owner_pod(node: RealNode, gate: tuple[str, int]) -> Object:
    """A pod that runs `OWNER`, with its credentials where a kubelet puts them."""
    stand_in = str(Path(__file__).with_name("stand_in_worker.py"))
    arguments = [str(TESTS), node.worker_image, stand_in, gate[0], str(gate[1])]
    sources = [
        {"secret": {"name": "credentials"}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    container = {
        "name": "main",
        "image": node.worker_image,
        "command": ["python", "-c", OWNER, *arguments],
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "credentials", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    spec = {
        "automountServiceAccountToken": False,
        "nodeSelector": {"pool": "real"},
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "credentials", "projected": {"sources": sources}}],
    }
    return {"kind": "Pod", "metadata": {"name": "owner"}, "spec": spec}


def test_a_token_that_is_rotated_and_revoked_stops_nothing(
    cluster: RunningCluster, namespace: str, real_node: RealNode
):
    """A kubelet's own tokens live ten minutes at least; these come the same way and end when the test says so."""
    api = cluster.client()
    old = ShortToken(cluster, namespace, "old")
    api.create({"kind": "Secret", "metadata": {"name": "credentials"}, "stringData": {"token": old.text}}, namespace)
    api.create(EVERYTHING, namespace)
    with Gate(real_node.machine_address) as gate:
        api.create(owner_pod(real_node, gate.address), namespace)
        held = gate.next()
        new = ShortToken(cluster, namespace, "new")
        api.patch("Secret", "credentials", {"stringData": {"token": new.text}}, namespace)
        old.revoke()
        held.let_go()
        over = api.until("Pod", "owner", ended, namespace)
    assert phase(over) == "Succeeded", api.logs("owner", namespace)
