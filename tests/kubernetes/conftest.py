"""A real Kubernetes for the tests that ask for it: started with the first of them, ended after the last.

`make test` compiles its programs once per machine. ``--cluster=external`` takes the cluster of ``KUBECONFIG`` instead; tests that
need nodes of their own are left out there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cluster import build, machine
from cluster.build import BuildFailed
from cluster.control_plane import ControlPlane
from cluster.folder import own_folder
from cluster.kubectl import Kubectl
from cluster.kueue import Kueue
from cluster.kueue import why_not as kueue_why_not
from cluster.kwok import AddKwokNodes, Kwok
from cluster.process_node import AddProcessNode, ProcessNode
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from placing import Place
from skips import Skip
from two_jobs import MakeJobs, left_behind, two_jobs

from lancegpu_sql.placement.kubernetes import KubernetesPlacement

# What each fixture needs to have compiled.
_RECIPES = {"cluster": build.CLUSTER, "kueue": build.KUEUE}
_build_failures: dict[str, BuildFailed] = {}
# Once it was tried: why what real nodes need could not be installed, if so.
_installed: list[str | None] = []
_numbers = itertools.count(1)
NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "restricted", "lancegpu-test": "true"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Compile before the first test that needs it: outside the time that a test may take."""
    for fixture, recipe in () if _external(item.config) else _RECIPES.items():
        needed = fixture in getattr(item, "fixturenames", ()) and fixture not in _build_failures
        if needed and build.why_not(recipe) is None and (fixture != "kueue" or kueue_why_not() is None):
            _build(item.config, fixture)
    if "real_node" in getattr(item, "fixturenames", ()) and not _external(item.config):
        _install(item.config)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What is left out for lack of a cluster, Kueue or real nodes is one line for all tests: they share this file."""
    report = yield
    reasons = (Skip.NEEDS_CLUSTER, Skip.NEEDS_ROOT, Skip.NEEDS_NETWORK)
    if report.skipped and isinstance(report.longrepr, tuple) and any(one in report.longrepr[2] for one in reasons):
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


def _build(config: pytest.Config, fixture: str) -> None:
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            build.build(lambda line: print(f"\ntest cluster: {line}", end="", flush=True), _RECIPES[fixture])
        except BuildFailed as error:
            _build_failures[fixture] = error


def _install(config: pytest.Config) -> None:
    if not _installed and machine.why_not() is None:
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            _installed.append(machine.install(lambda line: print(f"\ntest cluster: {line}", end="", flush=True)))


def _external(config: pytest.Config) -> bool:
    return bool(config.getoption("--cluster") == "external")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """A running cluster: `kubeconfig` of an administrator, `client()`, and `plane` where it is ours."""
    if _external(request.config):
        yield RunningCluster(Path(os.environ["KUBECONFIG"]))
        return
    reason = build.why_not()
    if reason is not None:
        pytest.skip(f"{Skip.NEEDS_CLUSTER}: {reason}")
    if "cluster" in _build_failures:
        raise _build_failures["cluster"]
    with own_folder() as folder:
        plane = ControlPlane(folder, build.cached())
        try:
            plane.start()
            yield RunningCluster(plane.kubeconfig, plane)
        finally:
            plane.stop()


@pytest.fixture(scope="session")
def kueue(cluster: RunningCluster) -> Iterator[Kueue]:
    """Kueue, beside the cluster from the first test that asks for it: pods that name a queue are its business."""
    plane = cluster.plane
    for skip, reason in ((Skip.NEEDS_CLUSTER, build.why_not(build.KUEUE)), (Skip.NEEDS_ROOT, kueue_why_not())):
        if reason is not None:
            pytest.skip(f"{skip}: {reason}")
    if "kueue" in _build_failures:
        raise _build_failures["kueue"]
    kueue = Kueue(plane, build.cached(build.KUEUE))
    try:
        kueue.start()
        yield kueue
    finally:
        kueue.stop()


@pytest.fixture(scope="session")
def kubectl(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The real one, as an administrator."""
    return Kubectl(cluster.plane.programs["kubectl"], cluster.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture
def namespace(cluster: RunningCluster) -> Iterator[str]:
    """A fresh namespace that enforces the restricted Pod Security Standard."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    api = cluster.client()
    api.create({"kind": "Namespace", "metadata": {"name": name, "labels": NAMESPACE_LABELS}})
    api.until("ServiceAccount", "default", bool, name)
    yield name
    api.delete_all("Pod", name)
    api.delete("Namespace", name)


@pytest.fixture
def process_node(cluster: RunningCluster) -> Iterator[AddProcessNode]:
    """``process_node(name, gpus=…, labels=…, taints=…, resources={…})``: a ready node whose pods are local processes."""
    nodes: list[ProcessNode] = []

    def add(name: str, **wanted: Any) -> ProcessNode:
        nodes.append(ProcessNode(cluster.plane, name, **wanted))
        nodes[-1].wait_ready()
        return nodes[-1]

    yield add
    for node in nodes:
        node.close()


@pytest.fixture(scope="module")
def real_node(cluster: RunningCluster) -> Iterator[RealNode]:
    """A node of containers with two simulated GPUs and the label ``pool=real``, for all tests of a module."""
    plane = cluster.plane
    for skip, reason in ((Skip.NEEDS_ROOT, machine.why_not()), (Skip.NEEDS_NETWORK, *_installed)):
        if reason is not None:
            pytest.skip(f"{skip}: {reason}")
    node = RealNode(plane, "real-1", gpus=2, labels={"pool": "real"})
    try:
        node.wait_ready()
        yield node
    finally:
        node.close()


@pytest.fixture
def make_jobs(cluster: RunningCluster, namespace: str, tmp_path: Path) -> Iterator[MakeJobs]:
    """``make_jobs(queue=…, …)``: two jobs whose GPU class is as the test says. Afterwards nothing of them is left."""
    with ExitStack() as opened:
        yield lambda **of_class: opened.enter_context(two_jobs(tmp_path, cluster.kubeconfig, namespace, of_class))
    api = cluster.client()
    for claim in api.list("ResourceClaim", namespace):
        api.until("ResourceClaim", claim["metadata"]["name"], lambda found: found is None, namespace)
    assert left_behind(api, namespace) == {}


@pytest.fixture(scope="session")
def _kwok(cluster: RunningCluster) -> Iterator[Kwok]:
    kwok = Kwok(cluster.plane)
    yield kwok
    kwok.stop()


@pytest.fixture
def kwok_node(_kwok: Kwok) -> Iterator[AddKwokNodes]:
    """``kwok_node(*names, gpus=…, labels=…, taints=…, resources={…})``: ready nodes that are only objects."""
    made: list[str] = []

    def add(*names: str, **wanted: Any) -> None:
        made.extend(names)
        _kwok.add(names, **wanted)

    yield add
    _kwok.remove(made)


@pytest.fixture
def place(cluster: RunningCluster, namespace: str) -> Iterator[Place]:
    """Make a placement in the test's own namespace."""
    made: list[KubernetesPlacement] = []

    def make(**more: object) -> KubernetesPlacement:
        options: dict[str, object] = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": "worker:test",
            "database": "a test's",
            "cpu_node_selector": {"pool": "cpu"},
        }
        made.append(KubernetesPlacement(namespace, **{**options, **more}))
        return made[-1]

    yield make
    for placement in made:
        placement.close()
