"""Two agents of examples/kubernetes in containers, on one catalog in PostgreSQL that they find by a Secret; one is killed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest
import yaml
from agents import eventually
from cluster.api import Api
from cluster.kubectl import Kubectl
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from example import AGENTS, CLASS, DEPLOYMENT, WORKERS, inside, names, write_overlay
from gate import Gate
from postgresql_server import PostgresqlServer, running
from published import publications
from suites import TESTS

NAMESPACE = "lancegpu-two-agents"
PASSWORD = "tell-it-to-nobody"
# Two of its workers fit on the node: until somebody takes it away, that of the killed agent does not know of its death.
CLASSES = ({**CLASS, "name": "scarce", "node_selector": {"room": "yes"}, "cpu": 0.5}, CLASS)


@dataclass(frozen=True)
class Agents:
    """Two agents that serve one database, whose tables stand in `tables`."""

    api: Api
    kubectl: Kubectl
    tables: Path

    def names(self) -> list[str]:
        return names(self.api, "Pod", NAMESPACE, AGENTS)

    def ask(self, program: str, pod: str = DEPLOYMENT) -> Any:
        """Run a program in a pod, with the database open as `db`; return what it prints, as JSON."""
        return json.loads(inside(self.kubectl, NAMESPACE, "python", "-", stdin=OPENED + program, pod=pod))

    def kill(self, name: str) -> None:
        """Let a pod's processes end without a word, and the pod be gone at once."""
        pod = self.api.get("Pod", name, NAMESPACE)
        assert pod is not None
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if pod["metadata"]["uid"] in (process / "cgroup").read_text():
                    os.kill(int(process.name), signal.SIGKILL)
        self.kubectl("-n", NAMESPACE, "delete", "pod", name, "--force", "--grace-period=0", "--wait=false")


def several_agents() -> list[dict[str, Any]]:
    """The patches by which docs/kubernetes.md lets several agents serve one database."""
    written = (TESTS.parent / "docs" / "kubernetes.md").read_text()
    (block,) = (one for one in re.findall(r"```yaml\n(.*?)```", written, re.DOTALL) if "/spec/replicas" in one)
    return list(yaml.safe_load(block)["patches"])


@pytest.fixture(scope="module")
def catalog(real_node: RealNode, postgresql_programs: Path) -> Iterator[PostgresqlServer]:
    """A server that pods reach."""
    with running(postgresql_programs, real_node.machine_address) as server:
        server.run(f"CREATE ROLE agent LOGIN PASSWORD '{PASSWORD}'", "CREATE DATABASE shop OWNER agent")
        yield server


@pytest.fixture(scope="module")
def agents(
    cluster: RunningCluster,
    kubectl: Kubectl,
    real_node: RealNode,
    catalog: PostgresqlServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Agents]:
    """Both are ready."""
    folder = tmp_path_factory.mktemp("example")
    lease = {"name": "LANCEGPU_LEASE_SECONDS", "value": "4"}
    soon = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": lease}]
    overlay = write_overlay(folder, real_node, NAMESPACE, CLASSES, agent=soon, patches=several_agents())
    kubectl("create", "namespace", NAMESPACE)
    url = f"postgresql://agent:{PASSWORD}@{catalog.address}/shop"
    kubectl("-n", NAMESPACE, "create", "secret", "generic", "lancegpu-catalog", f"--from-literal=url={url}")
    applied = kubectl("apply", "-k", str(overlay))
    assert applied.returncode == 0, applied.stderr
    ready = kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, "--timeout=120s")
    assert ready.returncode == 0, ready.stderr
    yield Agents(cluster.client(), kubectl, folder / "disk" / "db")
    kubectl("delete", "-k", str(overlay), "--wait=false")


OPENED = """
import json, os
from lancegpu_sql import col, connect, function
db = connect(os.environ["LANCEGPU_DB"])
"""
MAKE_SCHEDULES = """
import pyarrow as pa

@function(gpu=True, gpu_class="scarce")
def worker_name(number: int) -> str:
    import os, socket
    name = os.uname().nodename
    with socket.create_connection({address}) as gate:
        gate.sendall(name.encode())
        gate.recv(1)
    return name

held = db.create_table("held", pa.table({{"number": [1, 2, 3]}}))
held.add_columns({{"worker": worker_name(number=col("number"))}})
held.set_schedule("worker", "every 1 second", batch_size=1)
db.create_materialized_view("clock", "SELECT now() AS at", schedule="every 1 second", with_no_data=True)
print("null")
"""
HOW_IT_STANDS = """
held, = db.list_schedules("held")
runs = sum(job.state == "finished" for job in db.list_jobs("clock"))
owner = db.get_job(held.job_id).record.owner if held.job_id else None
print(json.dumps([held.state, held.reason, owner and owner.host.partition("/")[0], runs]))
"""
ALL_JOBS = """
db.disable_schedule("clock")
known = db._services.catalog.schedule("view clock").schedule
jobs = [job for job in db.list_jobs("clock") if job.kind == known.job_kind]
due = [db.get_job(job.id).events()[0].detail["due"] for job in jobs]
print(json.dumps([due, {job.id: job.state for job in jobs}, known.streak]))
"""


def test_agents_find_their_catalog_by_the_secret_and_show_its_password_to_nobody(agents: Agents):
    assert agents.ask("print(json.dumps(len(db.list_agents())))") == 2
    assert not (agents.tables / ".lancegpu" / "catalog.sqlite").exists()
    said = agents.kubectl("-n", NAMESPACE, "logs", "--all-containers", "--prefix", "-l", AGENTS).stdout
    assert "Serving" in said
    files = [path.read_bytes() for path in agents.tables.rglob("*") if path.is_file()]
    objects = agents.kubectl("-n", NAMESPACE, "get", "pods,configmaps,events", "-o", "yaml").stdout
    assert not [one for one in (said.encode(), objects.encode(), *files) if PASSWORD.encode() in one]


@pytest.mark.timeout(600)
def test_an_agent_is_killed_while_a_scheduled_refresh_waits_for_room_and_each_refresh_happens_once(
    agents: Agents, real_node: RealNode
):
    with Gate(real_node.machine_address) as gate:
        agents.ask(MAKE_SCHEDULES.format(address=gate.address))
        _, reason, owner, runs = eventually(lambda: agents.ask(HOW_IT_STANDS), lambda seen: seen[0] == "waiting")
        assert "scarce" in reason
        assert owner in agents.names()
        (other,) = set(agents.names()) - {owner}
        agents.kill(owner)
        taken = eventually(lambda: agents.ask(HOW_IT_STANDS, other), lambda seen: seen[2] == other)
        eventually(
            lambda: agents.ask(HOW_IT_STANDS, other), lambda seen: seen[0] == "waiting" and seen[3] > taken[3] + 2
        )
        agents.kubectl("label", "node", real_node.name, "room=yes")
        workers = []
        for _ in range(3):
            call = gate.next()
            workers.append(call.worker)
            call.let_go()
        eventually(lambda: agents.ask(HOW_IT_STANDS, other)[0] == "up_to_date")
    values = lance.dataset(str(agents.tables / "held.lance")).to_table(["worker"])["worker"].to_pylist()
    assert values == workers
    assert values[0] in names(agents.api, "Pod", NAMESPACE, WORKERS)
    due, jobs, streak = eventually(
        lambda: agents.ask(ALL_JOBS, other), lambda seen: set(seen[1].values()) == {"finished"}
    )
    assert len(set(due)) == len(due), "a due time was queued twice"
    assert streak == 0
    assert len(jobs) > runs + 3
    made = publications(str(agents.tables / "clock.lance"))
    assert {job: made[job] for job in jobs} == dict.fromkeys(jobs, 1)
