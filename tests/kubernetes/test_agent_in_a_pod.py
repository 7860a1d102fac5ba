"""The agent of examples/kubernetes where it is meant to run: in a container, by the credentials that its pod is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import eventually
from cluster.kubectl import Kubectl
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from example import AGENTS, DEPLOYMENT, EXAMPLE, WORKERS, inside, names, write_overlay
from gate import Gate

NAMESPACE = "lancegpu-real"
AGENT = f"system:serviceaccount:{NAMESPACE}:lancegpu-agent"


@pytest.fixture(scope="module")
def overlay(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, for a real node."""
    return write_overlay(tmp_path_factory.mktemp("example"), real_node, NAMESPACE)


@pytest.fixture(scope="module")
def agent(kubectl: Kubectl, overlay: Path) -> Iterator[None]:
    """An agent that serves."""
    applied = kubectl("apply", "-k", str(overlay))
    assert (applied.returncode, applied.stderr) == (0, "")
    ready = kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, "--timeout=120s")
    assert ready.returncode == 0, ready.stderr
    yield
    kubectl("delete", "-k", str(overlay), "--wait=false")


@pytest.fixture(scope="module")
def first_job(agent: object, kubectl: Kubectl) -> None:
    """The example's first refresh, left to the agent, has ended."""
    printed = inside(kubectl, NAMESPACE, "python", "-", stdin=(EXAMPLE / "first.py").read_text())
    inside(kubectl, NAMESPACE, "lancegpu", "jobs", "watch", printed.split()[-1])


@pytest.mark.usefixtures("first_job")
def test_an_agent_in_a_pod_runs_a_job_on_a_gpu(kubectl: Kubectl):
    (row,) = (
        line for line in inside(kubectl, NAMESPACE, "lancegpu", "columns").splitlines() if line.startswith("reviews")
    )
    assert row.split() == ["reviews", "size", "text_size", "version", "1", "2", "0", "0", "0"]


@pytest.mark.usefixtures("first_job")
def test_the_agent_shows_a_token_of_its_pod_and_is_refused_nothing(cluster: RunningCluster):
    mine = cluster.plane.calls_of(AGENT)
    assert {call["responseStatus"]["code"] for call in mine if "responseStatus" in call} <= {200, 201, 404}
    pods = {call["user"]["extra"]["authentication.kubernetes.io/pod-name"][0] for call in mine}
    assert len(pods) == 1
    assert pods.pop().startswith("lancegpu-agent-")


@pytest.mark.usefixtures("first_job")
def test_the_network_policy_is_for_workers_and_lets_the_agent_in(cluster: RunningCluster):
    """As an object: the bridge of a real node here does not enforce policies."""
    policy = cluster.client().get("NetworkPolicy", "lancegpu-workers", NAMESPACE)
    assert policy is not None
    (rule,) = policy["spec"]["ingress"]

    def selected(by: dict[str, Any]) -> list[str]:
        labels = by["podSelector"]["matchLabels"].items()
        return names(cluster.client(), "Pod", NAMESPACE, ",".join(f"{key}={value}" for key, value in labels))

    workers, agents = selected(policy["spec"]), selected(rule["from"][0])
    assert [name.rpartition("-")[0] for name in workers] == ["lancegpu-text-size"]
    assert [name.startswith("lancegpu-agent-") for name in agents] == [True]


HELD_JOB = """
import os
import pyarrow as pa
from lancegpu_sql import col, connect, function

@function(gpu=True)
def worker_name(number: int) -> str:
    import os, socket
    name = os.uname().nodename
    with socket.create_connection({address}) as gate:
        gate.sendall(name.encode())
        gate.recv(1)
    return name

held = connect(os.environ["LANCEGPU_DB"]).create_table("held", pa.table({{"number": [1, 2, 3]}}))
held.add_columns({{"worker": worker_name(number=col("number"))}})
print("job", held.refresh_column("worker", wait=False, batch_size=1).id)
"""
SHOW_VALUES = """
import os
from lancegpu_sql import connect

print(*connect(os.environ["LANCEGPU_DB"]).open_table("held").to_arrow(["worker"])["worker"].to_pylist())
"""


@pytest.mark.usefixtures("first_job")
def test_a_new_agent_goes_on_with_the_job_of_the_old_one_and_no_worker_is_left_over(
    cluster: RunningCluster, kubectl: Kubectl, real_node: RealNode
):
    api = cluster.client()
    with Gate(real_node.machine_address) as gate:
        printed = inside(kubectl, NAMESPACE, "python", "-", stdin=HELD_JOB.format(address=gate.address))
        first = gate.next()
        (old,) = names(api, "Pod", NAMESPACE, AGENTS)
        kubectl("-n", NAMESPACE, "rollout", "restart", DEPLOYMENT)
        api.until("Pod", old, lambda pod: pod is None or "deletionTimestamp" in pod["metadata"], NAMESPACE)
        first.let_go()
        gate.open()
        kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, "--timeout=120s")
        inside(kubectl, NAMESPACE, "lancegpu", "jobs", "watch", printed.split()[-1])
    worked = inside(kubectl, NAMESPACE, "python", "-", stdin=SHOW_VALUES).split()
    assert [name.rpartition("-")[0] for name in worked] == ["lancegpu-worker-name"] * 3
    left = eventually(lambda: names(api, "Pod", NAMESPACE, WORKERS), lambda found: len(found) < 2)
    assert first.worker not in left
    assert set(names(api, "Secret", NAMESPACE, WORKERS)) <= set(left)
