"""examples/kubernetes on a real cluster: kubectl applies it, the agent may do what it needs and no more, and a job runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.api import Api
from cluster.kubectl import Kubectl
from cluster.pods import running
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from programs import run_program
from suites import TESTS

import lancegpu_sql as lg

EXAMPLE = TESTS.parent / "examples" / "kubernetes"
NAMESPACE = "lancegpu-example"
AGENT = f"system:serviceaccount:{NAMESPACE}:lancegpu-agent"

# Of a cluster's storage, a volume that stands for what a StorageClass would make.
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "lancegpu-example"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "100Gi"},
        "claimRef": {"namespace": NAMESPACE, "name": "lancegpu-database"},
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Delete",
    },
}

# In its own namespace, and in all others.
HERE = {
    "configmaps": "create get patch",
    "events": "list watch",
    "localqueues.kueue.x-k8s.io": "list watch",
    "pods": "create delete deletecollection get list patch watch",
    "pods/log": "get",
    "resourceclaims.resource.k8s.io": "list watch",
    "resourceclaimtemplates.resource.k8s.io": "create deletecollection get",
    "resourcequotas": "list watch",
    "secrets": "create delete deletecollection get",
    "serviceaccounts": "get",
    "workloads.kueue.x-k8s.io": "list watch",
}
EVERYWHERE = {
    "clusterqueues.kueue.x-k8s.io": "list watch",
    "deviceclasses.resource.k8s.io": "list watch",
    "nodes": "list watch",
    "pods": "list watch",
    "priorityclasses.scheduling.k8s.io": "get",
    "resourceclaims.resource.k8s.io": "list watch",
    "resourceflavors.kueue.x-k8s.io": "list watch",
    "resourceslices.resource.k8s.io": "list watch",
    "runtimeclasses.node.k8s.io": "get",
}
REFUSED_HERE = {
    "configmaps": "delete list update watch",
    "deployments.apps": "create get patch",
    "networkpolicies.networking.k8s.io": "delete patch",
    "persistentvolumeclaims": "delete get",
    "pods": "update",
    "pods/attach": "create get",
    "pods/ephemeralcontainers": "patch update",
    "pods/exec": "create get",
    "pods/portforward": "create get",
    "rolebindings.rbac.authorization.k8s.io": "create patch",
    "roles.rbac.authorization.k8s.io": "bind create escalate patch",
    "secrets": "list patch update watch",
    "serviceaccounts": "create impersonate",
    "serviceaccounts/token": "create",
}
REFUSED_EVERYWHERE = {
    "configmaps": "create get list",
    "namespaces": "create delete get list",
    "nodes": "delete patch update",
    "nodes/proxy": "create get",
    "pods": "create delete deletecollection patch",
    "secrets": "create delete get list",
    "users": "impersonate",
}


def each(table: dict[str, str]) -> list[Any]:
    """Every verb of a table with its resource."""
    return [pytest.param(verb, on, id=f"{verb} {on}") for on, verbs in table.items() for verb in verbs.split()]


@pytest.fixture(scope="module")
def overlay(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a namespace of its own, and with a volume; its agent finds this cluster by a file."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE / "base", folder / "base")
    here = folder / "overlay"
    here.mkdir()
    (here / "volume.yaml").write_text(yaml.safe_dump(VOLUME))
    # A process node takes paths below a mount, such as /tmp, for the pod's own; not one that begins with two slashes.
    variable = {"name": "KUBECONFIG", "value": f"/{cluster.plane.folder}/lancegpu-agent.kubeconfig"}
    add = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": variable}]
    patch = {"target": {"kind": "Deployment", "name": "lancegpu-agent"}, "patch": yaml.safe_dump(add)}
    kustomization = {"namespace": NAMESPACE, "resources": ["../base", "volume.yaml"], "patches": [patch]}
    (here / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return here


@pytest.fixture(scope="module")
def applied(kubectl: Kubectl, overlay: Path) -> Iterator[subprocess.CompletedProcess[str]]:
    """What kubectl said when it applied the example."""
    yield kubectl("apply", "-k", str(overlay))
    kubectl("delete", "-k", str(overlay), "--wait=false")


@pytest.fixture(scope="module")
def account(cluster: RunningCluster, applied: object) -> Callable[[str], Api]:
    """The API server, as a service account of the example."""

    def of(name: str) -> Api:
        path = f"api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(cluster.client().raw("POST", path, request))
        return Api(cluster.plane.bearer(name, answer["status"]["token"]))

    return of


@pytest.fixture(scope="module")
def agent(account: Callable[[str], Api]) -> Api:
    """The API server, as the agent."""
    return account("lancegpu-agent")


def may(agent: Api, verb: str, on: str, namespace: str) -> bool:
    """Ask the API server whether the agent may do that there; an empty namespace is the whole cluster."""
    named, _, group = on.partition(".")
    resource, _, part = named.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": part, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = agent.raw("POST", "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(json.loads(answer)["status"]["allowed"])


def test_kubectl_applies_all_of_it_without_a_warning(applied: subprocess.CompletedProcess[str]):
    assert (applied.returncode, applied.stderr) == (0, "")
    assert all(line.endswith(" created") for line in applied.stdout.splitlines())


def test_docs_show_what_kubectl_says(applied: subprocess.CompletedProcess[str]):
    shown = re.findall(r"^\S+/\S+ created$", (TESTS.parent / "docs" / "kubernetes.md").read_text(), re.MULTILINE)
    said = [line.replace(NAMESPACE, "lancegpu") for line in applied.stdout.splitlines()]
    assert shown == [line for line in said if not line.startswith("persistentvolume/")]


def test_the_server_takes_every_object_as_it_is(applied: object, kubectl: Kubectl, overlay: Path):
    said = kubectl("apply", "-k", str(overlay), "--dry-run=server", "--validate=strict")
    assert (said.returncode, said.stderr) == (0, "")
    assert all(line.endswith(" unchanged (server dry run)") for line in said.stdout.splitlines())


def test_workers_run_the_agents_image(kubectl: Kubectl, overlay: Path):
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(overlay)).stdout))
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    told = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
    images = {one["image"] for one in spec["containers"] + spec["initContainers"]}
    assert images == {told["LANCEGPU_KUBERNETES_IMAGE"]}


def test_every_container_finds_the_catalog_by_its_secret(kubectl: Kubectl, overlay: Path):
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(overlay)).stdout))
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    secret = {"secretKeyRef": {"name": "lancegpu-catalog", "key": "url", "optional": True}}
    for container in spec["initContainers"] + spec["containers"]:
        found = [one["valueFrom"] for one in container["env"] if one["name"] == "LANCEGPU_CATALOG"]
        assert found == [secret], container["name"]


@pytest.mark.parametrize(("verb", "on"), each(HERE))
def test_the_agent_may_do_what_it_needs_in_its_namespace(agent: Api, verb: str, on: str):
    assert may(agent, verb, on, NAMESPACE)


@pytest.mark.parametrize(("verb", "on"), each(EVERYWHERE))
def test_the_agent_may_look_at_the_whole_cluster(agent: Api, verb: str, on: str):
    assert may(agent, verb, on, "")


@pytest.mark.parametrize(("verb", "on"), each(REFUSED_HERE))
def test_the_agent_may_do_no_more_in_its_namespace(agent: Api, verb: str, on: str):
    assert not may(agent, verb, on, NAMESPACE)


@pytest.mark.parametrize(("verb", "on"), each(REFUSED_EVERYWHERE))
def test_the_agent_may_change_nothing_elsewhere(agent: Api, verb: str, on: str):
    assert not may(agent, verb, on, "")
    assert not may(agent, verb, on, "kube-system")


def granted(who: Api) -> set[tuple[str, str]]:
    """Every verb with its resource that the example's namespace or the whole cluster lets an account use."""
    spec = {"namespace": NAMESPACE}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    answer = who.raw("POST", "apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    return {
        (verb, f"{resource}.{group}".rstrip("."))
        for rule in json.loads(answer)["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_lists_above_are_all_that_the_agent_may_do(agent: Api, account: Callable[[str], Api]):
    named = {(verb, on) for table in (HERE, EVERYWHERE) for on, verbs in table.items() for verb in verbs.split()}
    assert granted(agent) - granted(account("default")) == named


def test_workers_may_do_no_more_than_an_account_without_any_right(account: Callable[[str], Api]):
    assert granted(account("lancegpu-worker")) == granted(account("default"))


def test_the_first_refresh_runs_in_a_pod_of_its_class(
    cluster: RunningCluster, agent: Api, process_node: AddProcessNode, monkeypatch: pytest.MonkeyPatch
):
    process_node("plain-1")
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    process_node("l4-1", gpus=1, labels={"gpu": "l4"}, taints=[taint])
    api = cluster.client()
    api.until("Deployment", "lancegpu-agent", lambda one: one and one["status"].get("readyReplicas") == 1, NAMESPACE)
    (pod,) = api.list("Pod", NAMESPACE, labelSelector="app.kubernetes.io/name=lancegpu-agent")
    assert running(pod)
    (folder,) = cluster.plane.folder.glob("nodes/plain-1/**/volumes/database/db")
    monkeypatch.setenv("LANCEGPU_DB", str(folder))
    printed = run_program(EXAMPLE / "first.py", folder=folder.parent)
    with lg.connect(folder) as db:
        db.get_job(printed.split()[-1]).wait(120)
        assert db.open_table("reviews").to_arrow(["size"])["size"].to_pylist() == [4, 15]
    mine = [call for call in cluster.plane.calls_of(AGENT) if "lancegpu" in call.get("userAgent", "")]
    assert mine
    assert [call["requestURI"] for call in mine if call["responseStatus"]["code"] == 403] == []
