from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.pod_security import skeleton, weaknesses


def worker(**keys: Any) -> dict[str, Any]:
    return {"containers": [{"name": "worker", **keys}]}


def test_the_skeleton_of_a_workers_pod_is_secure() -> None:
    assert weaknesses(skeleton()) == ()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"automountServiceAccountToken": True}, "spec.automountServiceAccountToken"),
        ({"automountServiceAccountToken": None}, "spec.automountServiceAccountToken"),
        ({"hostNetwork": True}, "spec.hostNetwork"),
        ({"hostPID": True}, "spec.hostPID"),
        ({"hostIPC": True}, "spec.hostIPC"),
        ({"securityContext": None}, "spec.securityContext.runAsNonRoot"),
        ({"securityContext": {"runAsNonRoot": False}}, "spec.securityContext.runAsNonRoot"),
        ({"securityContext": {"runAsUser": 0}}, "spec.securityContext.runAsUser"),
        ({"securityContext": {"seccompProfile": None}}, "spec.securityContext.seccompProfile"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "spec.securityContext.seccompProfile"),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "spec.securityContext.sysctls"),
        ({"containers": None}, "spec.containers"),
        ({"containers": "none"}, "spec.containers"),
        (worker(securityContext=None), "allowPrivilegeEscalation"),
        (worker(securityContext={"allowPrivilegeEscalation": True}), "allowPrivilegeEscalation"),
        (worker(securityContext={"privileged": True}), "privileged"),
        (worker(securityContext={"runAsNonRoot": False}), "runAsNonRoot"),
        (worker(securityContext={"runAsUser": 0}), "runAsUser"),
        (worker(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), "capabilities"),
        (worker(securityContext={"capabilities": {"drop": ["NET_RAW"]}}), "capabilities"),
        (worker(securityContext={"readOnlyRootFilesystem": False}), "readOnlyRootFilesystem"),
        (worker(securityContext={"procMount": "Unmasked"}), "procMount"),
        (worker(securityContext={"seccompProfile": {"type": "Unconfined"}}), "seccompProfile"),
        (worker(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "appArmorProfile"),
        (worker(ports=[{"containerPort": 1, "hostPort": 1}]), "hostPort"),
        (worker(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), "NVIDIA_VISIBLE_DEVICES"),
        ({"containers": [{"name": "beside", "image": "x"}]}, "spec.containers[beside]"),
        ({"initContainers": [{"name": "first", "image": "x"}]}, "spec.initContainers[first]"),
        ({"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "spec.volumes[host]"),
        ({"volumes": [{"name": "share", "nfs": {"server": "a", "path": "/"}}]}, "spec.volumes[share]"),
    ],
)
def test_each_weakness_is_told_by_its_path(spec: dict[str, Any], path: str) -> None:
    found = weaknesses(merged(skeleton(), {"spec": spec}))
    assert any(path in one for one in found)


def test_what_only_adds_is_no_weakness() -> None:
    spec = {
        "securityContext": {"fsGroup": 5, "runAsUser": 5},
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
        **worker(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]),
    }
    assert weaknesses(merged(skeleton(), {"spec": spec})) == ()
