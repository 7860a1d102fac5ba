"""Why a worker's pod waits: one of few reasons, one sentence that says what an operator can do, and the evidence.

Decided by reasons and by the state of the objects themselves: the texts of messages differ between releases, and are
only quoted.
"""

from __future__ import annotations

from datetime import datetime

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.bound import bound_verdict, ended_verdict
from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.evidence import evidence
from lancegpu_sql.placement.kubernetes.queues import gate_verdict
from lancegpu_sql.placement.kubernetes.quota import quota_verdict
from lancegpu_sql.placement.kubernetes.unscheduled import unscheduled_verdict
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.request import Waiting, WorkerRequest


def diagnose(
    pod: PodView, cluster: ClusterView, gpu_class: GpuClass | None, request: WorkerRequest, now: datetime
) -> Waiting:
    """Say why a pod does not serve yet.

    Parameters
    ----------
    pod
        The pod. One without a uid is a manifest that the API server refused, for a quota.
    cluster
        What may be read of the cluster now; one for all pods that are looked at together.
    gpu_class, request
        What the pod stands for.
    now
        Aware; tells young nodes and fresh conditions from old ones.
    """
    case = Case(pod, cluster, gpu_class, request, now)
    verdict = _verdict(case)
    return Waiting(verdict.reason, verdict.words, evidence(case, verdict), verdict.can_be_met)


def _verdict(case: Case) -> Verdict:
    pod = case.pod
    if not pod.uid:
        return quota_verdict(case)
    if pod.ended:
        return ended_verdict(case)
    if pod.node:
        return bound_verdict(case)
    if pod.gates:
        return gate_verdict(case)
    return unscheduled_verdict(case)
