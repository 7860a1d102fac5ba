"""A class's limit holds over all processes, also where two of them ask in the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fake_cluster import FakeCluster
from placement_suite import Asked, request_for

from lancegpu_sql.placement import GpuClass, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

ONE = GpuClass(name="l4", max_workers=1)

Place = Callable[[], KubernetesPlacement]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def place(cluster: FakeCluster) -> Iterator[Place]:
    """Makes placements of one database; each is to the others as one of another process."""
    made: list[KubernetesPlacement] = []

    def make() -> KubernetesPlacement:
        made.append(KubernetesPlacement("work", database="a test's", image="worker:test", cluster=cluster))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


def held_by_the_limit(asked: Asked) -> Waiting:
    while (told := asked.next(Waiting)).reason != "max_workers":
        pass
    return told


def test_of_two_that_ask_before_they_know_of_each_other_the_younger_waits(cluster: FakeCluster, place: Place):
    first, second = place(), place()
    for placement in (first, second):
        placement.free_workers(ONE, 1, 1)  # opens it
    cluster.until(lambda: cluster.count("watch", "Pod") == 2)
    cluster.deaf = True
    older, younger = Asked(first, request_for(ONE)), Asked(second, request_for(ONE))
    cluster.until(lambda: len(cluster.objects("Pod")) == 2)
    cluster.deaf = False
    for pod in cluster.objects("Pod"):
        cluster.change("Pod", pod["metadata"]["name"], {"spec": {"nodeName": "n1"}, "status": {"phase": "Pending"}})
    assert "in use by job" in held_by_the_limit(younger).message
    cluster.until(lambda: len(cluster.objects("Pod")) == 1)
    (left,) = cluster.objects("Pod")
    assert left["metadata"]["name"] == older.ticket.pod_name
    older.release()
    cluster.until(lambda: [one["metadata"]["name"] for one in cluster.objects("Pod")] == [younger.ticket.pod_name])
