"""What a worker's pod may not do, and whether a pod keeps to it: the restricted Pod Security Standard, and a read-only
root without a service account's token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from lancegpu_sql.functions.options import DEVICE_VARIABLES

WORKER_CONTAINER = "worker"

POD_SECURITY: Mapping[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
VOLUME_SOURCES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
"""The kinds of volume that the restricted standard admits: none of them is the node's own disk or a share by address."""

_GUARDED_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
)
_NO_DEVICES = ("void", "")
_SECCOMP_TYPES = (None, "RuntimeDefault", "Localhost")


def is_guarded_annotation(key: str) -> bool:
    """Tell whether an annotation is an old way to say what a security context says."""
    return key.startswith(_GUARDED_ANNOTATIONS)


def skeleton() -> dict[str, Any]:
    """Return the part of a worker's pod that security is about: overrides can be tried on it."""
    worker = {"name": WORKER_CONTAINER, "securityContext": CONTAINER_SECURITY}
    return deepcopy({"spec": {**POD_SECURITY, "containers": [worker], "volumes": []}})


def weaknesses(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings in which a pod may do more than a worker's should, each by its path."""
    spec = pod["spec"]
    annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
    guarded = (f"metadata.annotations: {key} must not be set" for key in annotations if is_guarded_annotation(key))
    return (*guarded, *_pod_weaknesses(spec), *_container_weaknesses(spec), *_volume_weaknesses(spec))


def _pod_weaknesses(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("automountServiceAccountToken") is not False:
        yield "spec.automountServiceAccountToken must be false"
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"spec.{name} must not be set"
    context = _mapping(spec.get("securityContext"))
    if context.get("runAsNonRoot") is not True:
        yield "spec.securityContext.runAsNonRoot must be true"
    if _mapping(context.get("seccompProfile")).get("type") is None:
        yield "spec.securityContext.seccompProfile.type must be RuntimeDefault or Localhost"
    if context.get("sysctls"):
        yield "spec.securityContext.sysctls must not be set"
    yield from _context_weaknesses(context, "spec.securityContext")


def _container_weaknesses(spec: Mapping[str, Any]) -> Iterator[str]:
    if WORKER_CONTAINER not in [_mapping(one).get("name") for one in spec.get("containers") or ()]:
        yield f"spec.containers: the container {WORKER_CONTAINER!r} must stay"
    for kind in ("containers", "initContainers"):
        for container in map(_mapping, spec.get(kind) or ()):
            name = container.get("name")
            where = f"spec.{kind}[{name}].securityContext"
            context = _mapping(container.get("securityContext"))
            capabilities = _mapping(context.get("capabilities"))
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{where}.allowPrivilegeEscalation must be false"
            if context.get("privileged"):
                yield f"{where}.privileged must not be set"
            if "ALL" not in (capabilities.get("drop") or ()) or capabilities.get("add"):
                yield f"{where}.capabilities must drop ALL and add none"
            if context.get("runAsNonRoot") not in (None, True):
                yield f"{where}.runAsNonRoot must not be false"
            if context.get("procMount") not in (None, "Default"):
                yield f"{where}.procMount must not be set"
            if name == WORKER_CONTAINER and context.get("readOnlyRootFilesystem") is not True:
                yield f"{where}.readOnlyRootFilesystem must be true"
            if any(_mapping(port).get("hostPort") for port in container.get("ports") or ()):
                yield f"spec.{kind}[{name}].ports: hostPort must not be set"
            for variable in map(_mapping, container.get("env") or ()):
                if variable.get("name") in DEVICE_VARIABLES and variable.get("value") not in _NO_DEVICES:
                    yield f"spec.{kind}[{name}].env: {variable['name']} is set by the placement"
            yield from _context_weaknesses(context, where)


def _context_weaknesses(context: Mapping[str, Any], where: str) -> Iterator[str]:
    """Look at what a pod's and a container's security context have in common."""
    if context.get("runAsUser") == 0:
        yield f"{where}.runAsUser must not be 0"
    if _mapping(context.get("seccompProfile")).get("type") not in _SECCOMP_TYPES:
        yield f"{where}.seccompProfile.type must be RuntimeDefault or Localhost"
    if _mapping(context.get("appArmorProfile")).get("type") == "Unconfined":
        yield f"{where}.appArmorProfile must not be Unconfined"
    for name in ("seLinuxOptions", "windowsOptions"):
        if context.get(name):
            yield f"{where}.{name} must not be set"


def _volume_weaknesses(spec: Mapping[str, Any]) -> Iterator[str]:
    for volume in map(_mapping, spec.get("volumes") or ()):
        for source in volume.keys() - VOLUME_SOURCES - {"name"}:
            yield f"spec.volumes[{volume.get('name')}]: {source} is not one of {', '.join(sorted(VOLUME_SOURCES))}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
