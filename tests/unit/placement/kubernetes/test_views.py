from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.placement.kubernetes.fit import selects, tolerates
from lancegpu_sql.placement.kubernetes.quantities import parse_quantity, words
from lancegpu_sql.placement.kubernetes.views import PodToleration, Taint, node_view, pod_requests, pod_view


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("1", 1000),
        ("500m", 500),
        ("0.1", 100),
        (".5", 500),
        ("1.", 1000),
        ("1n", 1),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1E", 10**21),
        ("-2", -2000),
        (3, 3000),
        ("", None),
        ("1e999999999", None),
        ("two", None),
        ("1 Gi", None),
        ("1Gib", None),
        (True, None),
        (None, None),
    ],
)
def test_a_quantity_is_read_as_kubernetes_does(text: object, thousandths: int | None) -> None:
    assert parse_quantity(text) == thousandths


@pytest.mark.parametrize(
    ("resource", "amount", "said"),
    [
        ("nvidia.com/gpu", 1000, "1 GPU"),
        ("amd.com/gpu", 4000, "4 GPUs"),
        ("nvidia.com/mig-1g.10gb", 2000, "2 nvidia.com/mig-1g.10gb devices"),
        ("cpu", 3500, "3.5 CPUs"),
        ("memory", 16 * 1024**3 * 1000, "16 GiB of memory"),
        ("ephemeral-storage", 1536 * 1024**2 * 1000, "1.5 GiB of ephemeral storage"),
    ],
)
def test_an_amount_is_said_as_people_say_it(resource: str, amount: int, said: str) -> None:
    assert words(resource, amount) == said


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("4"), container("2")]}, 4000),
        ({"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000),
    ],
)
def test_a_pod_needs_what_the_scheduler_counts(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(spec)["cpu"] == cpu


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        (PodToleration("k", "Equal", "v", "NoSchedule"), True),
        (PodToleration("k", "Equal", "v", ""), True),
        (PodToleration("k", "Exists", "", ""), True),
        (PodToleration("", "Exists", "", ""), True),
        (PodToleration("k", "Equal", "w", ""), False),
        (PodToleration("k", "Equal", "v", "NoExecute"), False),
        (PodToleration("", "Equal", "v", ""), False),
    ],
)
def test_a_toleration_covers_what_kubernetes_says_it_does(toleration: PodToleration, holds: bool) -> None:
    assert tolerates(toleration, Taint("k", "v", "NoSchedule")) is holds


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "gpu", "operator": "In", "values": ["a100", "h100"]}, True),
        ({"key": "gpu", "operator": "NotIn", "values": ["a100"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["x"]}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "DoesNotExist"}, False),
        ({"key": "memory", "operator": "Gt", "values": ["40000"]}, True),
        ({"key": "memory", "operator": "Lt", "values": ["40000"]}, False),
        ({"key": "gpu", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "gpu", "operator": "Newer", "values": []}, False),
    ],
)
def test_required_node_affinity_is_read_as_the_scheduler_does(expression: dict[str, Any], holds: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    node = node_view({"metadata": {"name": "n1", "labels": {"gpu": "a100", "memory": "81920"}}})
    assert selects(pod_view({"spec": {"affinity": affinity}}), node) is holds


def test_a_term_by_the_nodes_name_and_an_empty_term() -> None:
    node = node_view({"metadata": {"name": "n1"}})

    def chosen(*terms: dict[str, Any]) -> bool:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return selects(pod_view({"spec": {"affinity": {"nodeAffinity": required}}}), node)

    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert (chosen(by_name), chosen({}), chosen({}, by_name)) == (True, False, True)
