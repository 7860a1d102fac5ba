"""Whatever an API server, a webhook or a newer release sends: reading and diagnosing it never fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.case import REASONS
from lancegpu_sql.placement.kubernetes.cluster import RIGHTS, ClusterView
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.lifecycle import PodStory
from lancegpu_sql.placement.kubernetes.queue_views import (
    cluster_queue_view,
    flavor_view,
    local_queue_view,
    workload_view,
)
from lancegpu_sql.placement.kubernetes.table import evidence_lines, pool_table, shell_lines
from lancegpu_sql.placement.kubernetes.views import event_view, node_view, pod_view, quota_view
from lancegpu_sql.placement.request import WorkerRequest

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
A100 = GpuClass(name="a100", node_selector={"gpu": "a100"})
REQUEST = WorkerRequest("r1", "j1", "job j1", "embed", 1, A100, 1, 1, {}, 0.0)

WORDS = [
    "1",
    "2",
    "500m",
    "16Gi",
    "1e99",
    "-1",
    "True",
    "False",
    "Unknown",
    "a100",
    "a",
    "Pending",
    "Running",
    "Failed",
    "nvidia.com/gpu",
    "cpu",
    "NoSchedule",
    "Exists",
    "In",
    "Evicted",
    "OOMKilled",
    "ErrImagePull",
    "Pod",
    "2026-11-30T11:59:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "PodScheduled",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(WORDS),
    st.text(max_size=8),
)
KEYS = st.sampled_from(
    [
        "nvidia.com/gpu",
        "cpu",
        "memory",
        "pods",
        "gpu",
        "name",
        "key",
        "value",
        "effect",
        "operator",
        "values",
        "type",
        "status",
        "reason",
        "message",
        "state",
        "waiting",
        "running",
        "terminated",
        "exitCode",
        "signal",
        "requests",
        "conditions",
        "spec",
        "metadata",
    ]
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def shaped(**fields: Any) -> st.SearchStrategy[Any]:
    """Return objects with these fields, each of its own shape, missing, or anything at all."""
    return st.one_of(
        st.fixed_dictionaries({}, optional={name: ANY_JSON | one for name, one in fields.items()}), ANY_JSON
    )


def several(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(one, max_size=3)


AMOUNTS = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "cpu", "memory", "pods"]), SCALARS)
LABELS = st.dictionaries(st.sampled_from(["gpu", "app.kubernetes.io/managed-by", "lancegpu.dev/job"]), SCALARS)
CONDITION = shaped(type=SCALARS, status=SCALARS, reason=SCALARS, message=SCALARS, lastTransitionTime=SCALARS)
METADATA = shaped(
    name=st.sampled_from(["a", "b"]),
    namespace=st.just("work"),
    uid=st.sampled_from(["", "u1", "u2"]),
    labels=LABELS,
    creationTimestamp=SCALARS,
    deletionTimestamp=SCALARS,
)
CONTAINER = shaped(name=SCALARS, resources=shaped(requests=AMOUNTS, limits=AMOUNTS), restartPolicy=SCALARS)
STATE = shaped(
    waiting=shaped(reason=SCALARS, message=SCALARS),
    running=shaped(startedAt=SCALARS),
    terminated=shaped(reason=SCALARS, exitCode=SCALARS, signal=SCALARS),
)
TERM = shaped(matchExpressions=several(shaped(key=SCALARS, operator=SCALARS, values=several(SCALARS))))
POD = shaped(
    metadata=METADATA,
    spec=shaped(
        nodeName=st.sampled_from(["", "a"]),
        nodeSelector=LABELS,
        affinity=shaped(
            nodeAffinity=shaped(
                requiredDuringSchedulingIgnoredDuringExecution=shaped(nodeSelectorTerms=several(TERM)),
            )
        ),
        containers=several(CONTAINER),
        initContainers=several(CONTAINER),
        schedulingGates=several(shaped(name=st.sampled_from(["kueue.x-k8s.io/admission", "other"]))),
        tolerations=several(shaped(key=SCALARS, operator=SCALARS, value=SCALARS, effect=SCALARS)),
        resourceClaims=several(shaped(name=SCALARS, resourceClaimName=st.just("a"))),
    ),
    status=shaped(
        phase=SCALARS,
        reason=SCALARS,
        podIP=SCALARS,
        conditions=several(CONDITION),
        containerStatuses=several(shaped(name=SCALARS, state=STATE)),
        nominatedNodeName=SCALARS,
    ),
)
NODE = shaped(
    metadata=METADATA,
    spec=shaped(unschedulable=SCALARS, taints=several(shaped(key=SCALARS, value=SCALARS, effect=SCALARS))),
    status=shaped(allocatable=AMOUNTS, capacity=AMOUNTS, conditions=several(CONDITION)),
)
RIGHT_SETS = st.frozensets(st.sampled_from(sorted(RIGHTS)))


@given(POD, several(POD), several(NODE), several(ANY_JSON), RIGHT_SETS, st.sampled_from([A100, None]))
def test_a_diagnosis_of_anything_has_a_known_reason_one_sentence_and_json_evidence(
    pod: Any,
    pods: list[Any],
    nodes: list[Any],
    others: list[Any],
    unreadable: frozenset[str],
    gpu_class: GpuClass | None,
) -> None:
    cluster = ClusterView(
        nodes=tuple(map(node_view, nodes)),
        pods=tuple(map(pod_view, pods)),
        events=tuple(map(event_view, others)),
        quotas=tuple(map(quota_view, others)),
        claims=tuple(map(claim_view, others)),
        devices=tuple(device for one in others for device in published_devices(one)),
        device_classes=tuple(map(device_class_view, others)),
        workloads=tuple(map(workload_view, others)),
        local_queues=tuple(map(local_queue_view, others)),
        cluster_queues=tuple(map(cluster_queue_view, others)),
        flavors=tuple(map(flavor_view, others)),
        unreadable=unreadable,
    )
    waiting = diagnose(pod_view(pod), cluster, gpu_class, REQUEST, NOW)
    assert waiting.reason in REASONS
    assert waiting.message
    assert "\n" not in waiting.message
    json.dumps(dict(waiting.detail))


@given(several(POD | st.none()))
def test_the_story_of_anything_ends_at_most_once_and_says_nothing_after(looks: list[Any]) -> None:
    story = PodStory()
    told = [event for look in looks for event in story.observe(None if look is None else pod_view(look), now=NOW)]
    assert [type(event).__name__ for event in told[:-1]].count("Lost") == 0


@given(shaped(pod=shaped(conditions=several(CONDITION)), nodes=several(ANY_JSON), kubectl=several(SCALARS)))
def test_evidence_that_another_release_kept_is_shown_as_far_as_it_is_understood(detail: Any) -> None:
    kept = detail if isinstance(detail, dict) else {}
    titles, rows = pool_table(kept)
    assert all(len(row) == len(titles) for row in rows)
    assert all(isinstance(line, str) for line in [*evidence_lines(kept), *shell_lines(kept)])
