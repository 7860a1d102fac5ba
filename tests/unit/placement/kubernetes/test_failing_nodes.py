"""Nodes that failed pods twice are avoided, for a while, by pods of every shape."""

from __future__ import annotations

from typing import Any

from lancegpu_sql.placement.kubernetes.failing_nodes import (
    AVOIDED_SECONDS,
    REMEMBERED_SECONDS,
    FailingNodes,
    keeping_off,
    not_keeping_off,
    preferring_others,
)
from lancegpu_sql.placement.kubernetes.fit import selects
from lancegpu_sql.placement.kubernetes.views import NodeView, pod_view

NODES = [NodeView(name=name, labels={"kubernetes.io/hostname": name, "pool": "l4"}) for name in ("n1", "n2")]


def pod(*terms: Any) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return {"spec": {"affinity": affinity} if terms else {}}


def on_pool(*pools: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": "In", "values": list(pools)}]}


def takes(one: dict[str, Any]) -> list[str]:
    return [node.name for node in NODES if selects(pod_view(one), node)]


def test_one_failure_may_be_chance():
    failing = FailingNodes()
    failing.note("n1", now=0)
    assert failing.avoided(now=1) == {}


def test_a_node_is_avoided_after_two_failures_and_only_that_one():
    failing = FailingNodes()
    for node in ("n1", "n2", "n1"):
        failing.note(node, now=5)
    assert failing.avoided(now=6).keys() == {"n1"}


def test_a_node_is_tried_again_after_a_while():
    failing = FailingNodes()
    failing.note("n1", now=0)
    failing.note("n1", now=0)
    assert failing.avoided(now=AVOIDED_SECONDS) == {}


def test_a_failure_of_long_ago_does_not_count():
    failing = FailingNodes()
    failing.note("n1", now=0)
    failing.note("n1", now=REMEMBERED_SECONDS)
    assert failing.avoided(now=REMEMBERED_SECONDS) == {}


def test_a_pod_without_affinity_stays_off():
    assert takes(keeping_off(pod(), ["n1"])) == ["n2"]


def test_each_of_several_terms_says_it():
    assert takes(keeping_off(pod(on_pool("l4"), on_pool("a100", "l4")), ["n1"])) == ["n2"]


def test_a_pod_that_keeps_off_nothing_is_as_it_was():
    assert keeping_off(pod(), []) == pod()


def test_what_the_pod_selects_otherwise_is_known_still():
    kept = pod_view(keeping_off(pod(on_pool("a100")), ["n1"]))
    assert not any(selects(not_keeping_off(kept), node) for node in NODES)
    assert all(selects(not_keeping_off(pod_view(keeping_off(pod(), ["n1", "n2"]))), node) for node in NODES)


def test_a_pod_prefers_other_nodes_than_those_whose_device_failed_and_may_stand_there_all_the_same():
    pod = {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}}
    affinity = preferring_others(pod, {"b", "a"})["spec"]["affinity"]["nodeAffinity"]
    assert list(affinity) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    first, added = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert (first, added["weight"]) == ({"weight": 1}, 100)
    (expression,) = added["preference"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("NotIn", ["a", "b"])
    assert preferring_others(pod, ()) == pod
