"""What a process node does as a kubelet does it, and what it pretends on demand."""

from __future__ import annotations

import socket
import ssl

import pytest
from cluster import kubeconfig
from cluster.api import Api, Object
from cluster.pods import condition, ended, pod, running
from cluster.process_kubelet import websocket
from cluster.process_kubelet.simulation import SIMULATE
from cluster.process_node import AddProcessNode, ProcessNode
from cluster.running import RunningCluster

# A safety net.
TIMEOUT_SECONDS = 30.0


@pytest.fixture
def node(process_node: AddProcessNode) -> ProcessNode:
    """A node with one GPU, and two devices of another maker."""
    return process_node("node-1", gpus=1, resources={"amd.com/gpu": 2})


@pytest.fixture
def api(cluster: RunningCluster) -> Api:
    """The API server."""
    return cluster.client()


def terminated(found: Object) -> Object:
    """How the first container ended."""
    return dict(found["status"]["containerStatuses"][0]["state"]["terminated"])


def waiting_reason(found: Object | None) -> str | None:
    """Why the first container waits."""
    states = [one["state"] for one in found["status"].get("containerStatuses", ())] if found else []
    return next((state["waiting"].get("reason") for state in states if "waiting" in state), None)


def simulate(api: Api, name: str, namespace: str, what: str | None) -> None:
    """Ask the node to pretend."""
    api.patch("Pod", name, {"metadata": {"annotations": {SIMULATE: what}}}, namespace)


def end_of_deleted(api: Api, namespace: str, asked: Object) -> Object:
    """How a pod ends that is deleted while it runs, and has printed that it is ready for that."""
    name = asked["metadata"]["name"]
    # Without a finalizer the object would be gone before it can be looked at.
    asked["metadata"]["finalizers"] = ["lancegpu.test/looked-at"]
    api.create(asked, namespace)
    api.until("Pod", name, running, namespace)
    api.until_printed(name, "set", namespace)
    api.delete("Pod", name, namespace)
    found = api.until("Pod", name, ended, namespace)
    api.patch("Pod", name, {"metadata": {"finalizers": None}}, namespace)
    api.until("Pod", name, lambda found: found is None, namespace)
    return terminated(found)


def open_tunnel(cluster: RunningCluster, path: str) -> ssl.SSLSocket:
    """A connection to the API server that asks to become a WebSocket."""
    access = kubeconfig.read(cluster.kubeconfig)
    host, port = access.server.removeprefix("https://").split(":")
    tunnel = access.tls.wrap_socket(socket.create_connection((host, int(port)), TIMEOUT_SECONDS), server_hostname=host)
    asked = {
        "Host": host,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": websocket.CHANNELS,
    }
    lines = [f"GET /{path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items())]
    tunnel.sendall("\r\n".join([*lines, "", ""]).encode())
    return tunnel


def masked(payload: bytes) -> bytes:
    """A short message as clients send it; a mask of zeros changes nothing."""
    return bytes([0x80 | websocket.BINARY, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def test_variables_and_references_reach_the_command(api: Api, namespace: str, node: ProcessNode):
    api.create({"kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "hush"}}, namespace)
    asked = pod("one", "")
    asked["metadata"]["labels"] = {"team": "blue"}
    asked["spec"]["containers"][0] |= {
        "command": ["echo", "$(TOKEN) $(TEAM) $(BOTH) $$(TEAM) $(UNKNOWN)"],
        "env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
            {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
            {"name": "BOTH", "value": "$(TOKEN)-$(TEAM)"},
        ],
    }
    api.create(asked, namespace)
    api.until("Pod", "one", ended, namespace)
    assert api.logs("one", namespace) == "hush blue hush-blue $(TEAM) $(UNKNOWN)\n"


def test_a_secret_that_is_late_is_waited_for(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "echo $WORD")
    asked["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "late"}}]
    api.create(asked, namespace)
    api.until("Pod", "one", lambda found: waiting_reason(found) == "CreateContainerConfigError", namespace)
    api.create({"kind": "Secret", "metadata": {"name": "late"}, "stringData": {"WORD": "here"}}, namespace)
    api.until("Pod", "one", ended, namespace)
    assert api.logs("one", namespace) == "here\n"


def test_any_extended_resource_is_handed_out(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "echo $AMD_VISIBLE_DEVICES")
    asked["spec"]["containers"][0]["resources"] = {"limits": {"amd.com/gpu": "2"}}
    api.create(asked, namespace)
    api.until("Pod", "one", ended, namespace)
    assert api.logs("one", namespace) == "0,1\n"


def test_a_mounted_path_in_the_environment_is_a_folder_that_can_be_written(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", 'echo kept > "$CACHE/file"; cat "$CACHE/file"')
    asked["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    asked["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "env": [{"name": "CACHE", "value": "/scratch"}],
    }
    api.create(asked, namespace)
    api.until("Pod", "one", ended, namespace)
    assert api.logs("one", namespace) == "kept\n"


def test_an_exit_status_and_the_last_words_are_told(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "echo it broke; exit 3")
    asked["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    api.create(asked, namespace)
    end = terminated(api.until("Pod", "one", ended, namespace))
    assert (end["exitCode"], end["reason"], end["message"]) == (3, "Error", "it broke\n")


def test_a_container_that_crashes_is_started_again(api: Api, namespace: str, node: ProcessNode):
    api.create(pod("one", "exit 1", restartPolicy="Always"), namespace)

    def has_been_restarted(found: Object | None) -> bool:
        statuses = found["status"].get("containerStatuses") if found else None
        return bool(statuses) and statuses[0]["restartCount"] >= 2

    found = api.until("Pod", "one", has_been_restarted, namespace)
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_a_pod_that_is_deleted_may_end_within_its_grace(api: Api, namespace: str, node: ProcessNode):
    end = end_of_deleted(api, namespace, pod("one", "trap 'exit 0' TERM; echo set; while :; do sleep 0.05; done"))
    assert (end["exitCode"], end["reason"]) == (0, "Completed")


def test_a_pod_that_does_not_end_within_its_grace_is_killed(api: Api, namespace: str, node: ProcessNode):
    stubborn = pod("one", "trap '' TERM; echo set; while :; do sleep 0.05; done", terminationGracePeriodSeconds=1)
    assert end_of_deleted(api, namespace, stubborn)["exitCode"] == 137


def test_a_pod_is_ready_when_its_port_answers(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "exec python -m http.server --bind $POD_IP 8000")
    asked["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    api.create(asked, namespace)
    api.until("Pod", "one", lambda found: bool(found and found["status"]["phase"] == "Running"), namespace)
    api.until("Pod", "one", running, namespace)


def test_a_port_of_a_pod_is_reached_through_the_api_server(
    cluster: RunningCluster, api: Api, namespace: str, node: ProcessNode
):
    asked = pod("one", "echo hello > word; exec python -m http.server --bind $POD_IP 8000")
    asked["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"port": 8000}, "periodSeconds": 1}
    api.create(asked, namespace)
    api.until("Pod", "one", running, namespace)
    with open_tunnel(cluster, f"api/v1/namespaces/{namespace}/pods/one/portforward?ports=8000") as tunnel:
        assert tunnel.recv(1 << 16).startswith(b"HTTP/1.1 101 Switching Protocols")
        tunnel.sendall(masked(b"\x00GET /word HTTP/1.0\r\n\r\n"))
        answer = b"".join(iter(lambda: tunnel.recv(1 << 16), b""))
    assert b"200 OK" in answer
    assert b"hello\n" in answer


@pytest.mark.parametrize(
    ("what", "phase", "reason"), [("out-of-memory", "Failed", None), ("eviction", "Failed", "Evicted")]
)
def test_a_running_pod_is_lost_on_demand(
    api: Api, namespace: str, node: ProcessNode, what: str, phase: str, reason: str | None
):
    api.create(pod("one", "sleep 600"), namespace)
    api.until("Pod", "one", running, namespace)
    simulate(api, "one", namespace, what)
    found = api.until("Pod", "one", ended, namespace)
    assert (found["status"]["phase"], found["status"].get("reason")) == (phase, reason)
    assert terminated(found)["exitCode"] == 137
    assert (terminated(found)["reason"] == "OOMKilled") == (what == "out-of-memory")


def test_an_image_cannot_be_pulled_until_it_can(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "true")
    asked["metadata"]["annotations"] = {SIMULATE: "image-error"}
    api.create(asked, namespace)
    api.until("Pod", "one", lambda found: waiting_reason(found) == "ImagePullBackOff", namespace)
    simulate(api, "one", namespace, None)
    api.until("Pod", "one", ended, namespace)


def test_a_node_may_refuse_a_pod_that_was_bound_to_it(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "true", gpus=1)
    asked["metadata"]["annotations"] = {SIMULATE: "admission-error"}
    api.create(asked, namespace)
    found = api.until("Pod", "one", ended, namespace)
    assert found["status"]["reason"] == "UnexpectedAdmissionError"


def test_an_evicted_pod_is_told_so(api: Api, namespace: str, node: ProcessNode):
    asked = pod("one", "trap '' TERM; while :; do sleep 0.05; done")
    api.create(asked, namespace)
    api.until("Pod", "one", running, namespace)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one", "namespace": namespace}}
    api.raw("POST", f"api/v1/namespaces/{namespace}/pods/one/eviction", eviction)
    found = api.until("Pod", "one", lambda found: condition(found, "DisruptionTarget"), namespace)
    assert condition(found, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"
    api.until("Pod", "one", lambda found: found is None, namespace)


def test_a_silent_node_is_unknown_and_comes_back(api: Api, node: ProcessNode):
    node.stop_heartbeats()
    api.until("Node", node.name, lambda found: condition(found, "Ready")["status"] == "Unknown")
    node.resume_heartbeats()
    api.until("Node", node.name, lambda found: condition(found, "Ready")["status"] == "True")


def test_pods_outlive_a_restart_of_the_api_server(cluster: RunningCluster, api: Api, namespace: str, node: ProcessNode):
    api.create(pod("one", "sleep 600"), namespace)
    api.until("Pod", "one", running, namespace)
    cluster.plane.stop_api_server()
    cluster.plane.start_api_server()
    api.create(pod("two", "true"), namespace)
    api.until("Pod", "two", ended, namespace)
    assert running(api.get("Pod", "one", namespace))
