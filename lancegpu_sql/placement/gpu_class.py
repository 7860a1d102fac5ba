"""An operator's GPU classes: the names under which pools of devices are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lancegpu_sql.errors import InvalidGpuClass
from lancegpu_sql.functions.sizes import MOST_BYTES, parse_bytes
from lancegpu_sql.placement.pod_fields import (
    Annotations,
    Declared,
    DeviceClaim,
    DnsName,
    Environment,
    Image,
    ImageRule,
    LabelKey,
    Labels,
    LabelValue,
    ResourceName,
    Volume,
    check_overrides,
    no_names_twice,
)
from lancegpu_sql.settings import MOST_SECONDS, requirement

# A ledger of devices is read whole, again and again.
_MOST_SIMULATED = 1024

START_TIMEOUT_SECONDS = 1800.0
"""An image of 30 GB, as those with CUDA may be, takes 20 minutes at 25 MB/s."""

SizeBytes = Annotated[PositiveInt, Field(le=MOST_BYTES), BeforeValidator(parse_bytes)]


class Toleration(Declared):
    """One toleration, as a pod spells it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_alias=True, validate_by_name=True)

    key: str | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(default=None, alias="tolerationSeconds")


class LocalDevices(Declared):
    """The devices of a class on this machine: real ones by NVML's numbers, all of them, or simulated ones."""

    devices: Literal["auto"] | Annotated[tuple[NonNegativeInt, ...], Field(strict=False)] | None = None
    simulated: Annotated[NonNegativeInt, Field(le=_MOST_SIMULATED)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> LocalDevices:
        if (self.devices is None) == (self.simulated is None):
            raise ValueError("give either devices ('auto' or a list of numbers) or simulated (how many)")
        if isinstance(self.devices, tuple) and len(set(self.devices)) < len(self.devices):
            raise ValueError(f"a device is listed twice: {list(self.devices)}")
        return self


class GpuClass(Declared):
    """A pool of like devices, by the name that Functions ask for.

    Parameters
    ----------
    name
        Letters, digits, ``-``, ``_`` and ``.``; at most 63.
    gpu_model, gpu_memory_bytes
        What the hardware is, for people; a number of bytes or a text such as ``24GiB``.
    max_gpu_count_per_worker
        The most devices one worker may ask for; None sets no limit. 1 where devices are shared.
    max_workers
        The most workers of the class at a time, of all jobs of a database (local: of all of this host's); None sets no
        limit.
    worker_idle_seconds
        How long a worker of the class that nobody uses is kept warm; None leaves that to the setting of that name.
    start_timeout_seconds
        How long a pod may take from getting its node to serving, its image pulled and its volumes mounted; how long it
        waits for a node never counts.
    backup_classes
        Classes that a job may use instead, in this order, when this one is full.
    sharing
        ``mig`` and ``time_sliced`` devices are parts of one: a worker gets one of them.
    local
        The devices of the class on this machine; None means it has none here.
    resource_name, device_claim
        What a pod asks for: devices of a device plugin, or a claim of Dynamic Resource Allocation.
    node_selector, tolerations, affinity, spot, runtime_class_name, priority_class_name, queue
        How a cluster knows the pool's nodes and when a pod may have one, as in a pod. `spot` tolerates the taints of
        nodes that may be taken away at short notice; `queue` is one of Kueue's.
    service_account, image, image_pull_secrets, allowed_images
        What a worker's pod runs, and as whom; `allowed_images` limits what an image named elsewhere may be.
    env, volumes, labels, annotations
        More of them for each pod.
    environment_volume, environment_on_cpu
        The one of the volumes on which environments of Functions are kept, for workers to come; whether pods without GPU,
        which mount it too, make them there before a GPU is asked for.
    cpu, memory_bytes, ephemeral_storage_bytes, shared_memory_bytes
        What a worker has beside its devices; shared memory is ``/dev/shm``.
    pod_overrides, allow_insecure_overrides
        A JSON merge patch of the pod; whether it may take away what the restricted Pod Security Standard asks for.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")]
    resource_name: ResourceName = "nvidia.com/gpu"
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = ()
    gpu_model: str | None = None
    gpu_memory_bytes: SizeBytes | None = None
    max_gpu_count_per_worker: PositiveInt | None = None
    max_workers: PositiveInt | None = None
    worker_idle_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)] | None = None
    start_timeout_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)] = START_TIMEOUT_SECONDS
    backup_classes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    sharing: Literal["exclusive", "mig", "time_sliced"] = "exclusive"
    local: LocalDevices | None = None
    device_claim: DeviceClaim | None = None
    affinity: dict[Literal["nodeAffinity", "podAffinity", "podAntiAffinity"], JsonValue] = Field(default_factory=dict)
    spot: bool = False
    runtime_class_name: DnsName | None = None
    priority_class_name: DnsName | None = None
    queue: DnsName | None = None
    service_account: DnsName | None = None
    image: Image | None = None
    image_pull_secrets: Annotated[tuple[DnsName, ...], Field(strict=False)] = ()
    allowed_images: Annotated[tuple[ImageRule, ...], Field(strict=False)] | None = None
    env: Environment = Field(default_factory=dict)
    volumes: Annotated[tuple[Volume, ...], Field(strict=False), AfterValidator(no_names_twice)] = ()
    environment_volume: str | None = None
    environment_on_cpu: bool = False
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    cpu: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    memory_bytes: SizeBytes | None = None
    ephemeral_storage_bytes: SizeBytes | None = None
    shared_memory_bytes: SizeBytes | None = None
    allow_insecure_overrides: bool = False
    pod_overrides: dict[Literal["metadata", "spec"], JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shared_devices_come_singly(cls, spec: Any) -> Any:
        shared = isinstance(spec, dict) and spec.get("sharing") in ("mig", "time_sliced")
        return {"max_gpu_count_per_worker": 1, **spec} if shared else spec

    @field_validator("backup_classes")
    @classmethod
    def _others_and_each_once(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("name") in names:
            raise ValueError("a class cannot stand in for itself")
        if len(set(names)) < len(names):
            raise ValueError("a class is listed twice")
        return names

    @field_validator("pod_overrides")
    @classmethod
    def _overrides_keep_the_pod_what_it_is(cls, overrides: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        weakened = check_overrides(overrides)
        if weakened and not info.data.get("allow_insecure_overrides"):
            raise ValueError(f"{'; '.join(weakened)} (or set allow_insecure_overrides: true)")
        return overrides

    @model_validator(mode="after")
    def _keys_agree(self) -> GpuClass:
        if self.device_claim is not None and "resource_name" in self.model_fields_set:
            raise ValueError("give either resource_name (device plugin) or device_claim (Dynamic Resource Allocation)")
        if self.sharing != "exclusive" and self.max_gpu_count_per_worker != 1:
            raise ValueError(f"with sharing: {self.sharing} a worker gets one device: max_gpu_count_per_worker is 1")
        if self.environment_volume is not None and self.environment_volume not in [one.name for one in self.volumes]:
            raise ValueError(f"environment_volume {self.environment_volume!r} is none of the class's volumes")
        if self.environment_on_cpu and self.environment_volume is None:
            raise ValueError("environment_on_cpu needs environment_volume: where both kinds of pods find environments")
        if self.memory_bytes and self.shared_memory_bytes and self.shared_memory_bytes > self.memory_bytes:
            raise ValueError("shared_memory_bytes is part of memory_bytes, and cannot be more")
        return self

    @property
    def simulated(self) -> bool:
        """Whether its devices here are pretended ones, for demos and tests."""
        return self.local is not None and self.local.simulated is not None

    def spec(self) -> dict[str, Any]:
        """Return what was declared, as JSON values; `GpuClass.from_spec` reads it back."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> GpuClass:
        """Return the class that `spec` describes.

        Raises
        ------
        InvalidGpuClass
            It describes none: it was kept by another release, or changed by hand.
        """
        try:
            return cls.model_validate(spec)
        except ValidationError as exc:
            name = spec.get("name")
            first = exc.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "it"
            raise InvalidGpuClass(
                f"the database keeps a GPU class {name!r} that this release does not take: {key} {requirement(first)}. "
                "Apply the operator's file again: lancegpu classes apply FILE",
                path=None,
                line=None,
                valid_keys=tuple(cls.model_fields),
            ) from exc


def duplicate_names(names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the positions (first, again) of names that stand twice; they are compared without regard to case."""
    first: dict[str, int] = {}
    again = []
    for position, name in enumerate(names):
        if (earlier := first.setdefault(name.casefold(), position)) != position:
            again.append((earlier, position))
    return tuple(again)
