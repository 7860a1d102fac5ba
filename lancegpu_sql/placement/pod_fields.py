"""What a GPU class says about the pods of its workers, beside what is common to all pods: names, volumes, claims."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PositiveInt, model_validator

from lancegpu_sql.functions.options import is_placement_variable
from lancegpu_sql.placement.images import check_rule, parse_image
from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.pod_security import VOLUME_SOURCES, is_guarded_annotation, skeleton, weaknesses

OWN_PREFIX = "lancegpu.dev/"
"""Labels and annotations under it are the program's own, by which it finds its workers again."""

MANAGED_BY = "app.kubernetes.io/managed-by"

# Names of volumes, and where they are mounted, in every worker's pod.
SCRATCH_VOLUME, SCRATCH_PATH = "scratch", "/tmp"  # noqa: S108 - the pod's own
SHM_VOLUME, SHM_PATH = "shm", "/dev/shm"  # noqa: S108

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

DnsLabel = Annotated[str, Field(pattern=rf"^{_DNS_LABEL}$")]
DnsName = Annotated[str, Field(pattern=rf"^{_DNS_NAME}$", max_length=253)]
LabelKey = Annotated[str, Field(pattern=rf"^({_DNS_NAME}/)?{_LABEL_NAME}$", max_length=253 + 1 + 63)]
LabelValue = Annotated[str, Field(pattern=rf"^({_LABEL_NAME})?$")]
ResourceName = Annotated[str, Field(pattern=rf"^{_DNS_NAME}/{_LABEL_NAME}$")]


def _not_own(keys: dict[str, str]) -> dict[str, str]:
    own = [key for key in keys if key == MANAGED_BY or key.startswith(OWN_PREFIX)]
    if own:
        raise ValueError(f"{', '.join(own)}: the program sets these itself")
    return keys


def _not_guarded(annotations: dict[str, str]) -> dict[str, str]:
    guarded = [key for key in annotations if is_guarded_annotation(key)]
    if guarded:
        raise ValueError(f"{', '.join(guarded)}: use pod_overrides, with allow_insecure_overrides: true")
    return annotations


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    for name in env:
        if not _ENV_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name an environment variable; use letters, digits and _")
        if is_placement_variable(name):
            raise ValueError(f"{name} says which devices a worker sees: it is set by the placement")
    return env


def _checked_image(image: str) -> str:
    parse_image(image)
    return image


Labels = Annotated[dict[LabelKey, LabelValue], AfterValidator(_not_own)]
Annotations = Annotated[dict[LabelKey, str], AfterValidator(_not_own), AfterValidator(_not_guarded)]
Environment = Annotated[dict[str, str], AfterValidator(_checked_env)]
Image = Annotated[str, AfterValidator(_checked_image)]
ImageRule = Annotated[str, AfterValidator(check_rule)]


class Declared(BaseModel):
    """A part of an operator's file."""

    # Strict: `max_workers: yes` or a number in quotes is an operator's slip, not a number.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Volume(Declared):
    """A volume, and where the worker finds it.

    `source` is one volume source as a pod spells it: ``{persistentVolumeClaim: {claimName: models}}``.
    """

    name: DnsLabel
    mount_path: Annotated[str, Field(pattern=r"^/[^:]+$")]
    read_only: bool = True
    source: dict[str, JsonValue]

    @model_validator(mode="after")
    def _one_source_in_a_free_place(self) -> Volume:
        if len(self.source) != 1:
            raise ValueError("source has one key, such as {persistentVolumeClaim: {claimName: models}}")
        if self.source.keys() - VOLUME_SOURCES:
            raise ValueError(
                f"source {next(iter(self.source))!r} is not one of {', '.join(sorted(VOLUME_SOURCES))}, "
                "which the restricted Pod Security Standard admits"
            )
        if self.name in (SCRATCH_VOLUME, SHM_VOLUME) or self.mount_path.rstrip("/") in (SCRATCH_PATH, SHM_PATH):
            raise ValueError(
                f"every worker has its own {SCRATCH_VOLUME!r} at {SCRATCH_PATH} and {SHM_VOLUME!r} at {SHM_PATH}"
            )
        return self


class DeviceAlternative(Declared):
    """One way in which a claim may be met."""

    device_class: DnsName
    selectors: Annotated[tuple[str, ...], Field(strict=False, max_length=32)] = ()
    count: PositiveInt = 1


class DeviceClaim(Declared):
    """Devices asked for by Dynamic Resource Allocation instead of by a resource's name.

    Parameters
    ----------
    device_class, selectors
        A DeviceClass of the cluster, and CEL expressions that every device must satisfy.
    count
        Devices that stand for one GPU of a worker.
    first_available
        Instead of these: up to eight ways to meet the claim, the best one first.
    """

    device_class: DnsName | None = None
    selectors: Annotated[tuple[str, ...], Field(strict=False, max_length=32)] = ()
    count: PositiveInt = 1
    first_available: Annotated[tuple[DeviceAlternative, ...], Field(strict=False, max_length=8)] = ()

    @model_validator(mode="after")
    def _one_of_both(self) -> DeviceClaim:
        if (self.device_class is None) == (not self.first_available):
            raise ValueError("give either device_class or first_available (a list of alternatives)")
        if self.first_available and (self.selectors or self.count != 1):
            raise ValueError("with first_available, selectors and count belong to each alternative")
        return self


def no_names_twice(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Refuse volumes of one name or one place."""
    for what in ("name", "mount_path"):
        values: list[Any] = [getattr(volume, what) for volume in volumes]
        if twice := {value for value in values if values.count(value) > 1}:
            raise ValueError(f"{what} {', '.join(sorted(twice))} stands twice")
    return volumes


def check_overrides(overrides: dict[str, Any]) -> tuple[str, ...]:
    """Return what a patch of a worker's pod takes away of its security.

    Raises
    ------
    ValueError
        It is no patch of a pod, or changes what the program finds its pods by.
    """
    metadata = overrides.get("metadata", {})
    if not isinstance(metadata, dict) or metadata.keys() - {"labels", "annotations"}:
        raise ValueError("of metadata only labels and annotations can be overridden")
    for part, changes in metadata.items():
        if not isinstance(changes, dict):
            raise ValueError(f"metadata.{part} is a mapping of names to texts")  # noqa: TRY004 - what pydantic reports
        _not_own(changes)
    try:
        return weaknesses(merged(skeleton(), overrides))
    except (TypeError, AttributeError, KeyError) as exc:
        raise ValueError("this is no part of a pod") from exc
