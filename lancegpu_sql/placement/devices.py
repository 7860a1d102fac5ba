"""Which devices a class has on this machine: NVIDIA's as its driver lists them, or simulated ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.placement.gpu_class import GpuClass


@dataclass(frozen=True)
class Device:
    """One device that a worker can have for itself.

    `id` tells it from all others of the host (a UUID of NVML's, or ``simulated:<class>/<number>``), `gpu_index` is the
    number of the GPU that it is, or is an instance of; None for simulated ones.
    """

    id: str
    gpu_index: int | None = None

    @property
    def simulated(self) -> bool:
        """Whether it is a pretended one."""
        return self.gpu_index is None


@dataclass(frozen=True)
class DriverReport:
    """What the driver lists, and, where that is nothing or not all, why."""

    devices: tuple[Device, ...]
    problem: str | None = None


def nvidia_devices(nvml: Any = None) -> DriverReport:
    """Ask NVIDIA's management library for the devices of this machine.

    A GPU that is cut into MIG instances gives these instead of itself. No driver means no devices: not an error.

    Parameters
    ----------
    nvml
        The `pynvml` module, or what behaves like it.
    """
    if nvml is None:
        import pynvml  # loaded here alone: only classes with real devices need it

        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as exc:
        return DriverReport((), f"no usable NVIDIA driver was found ({exc})")
    devices: list[Device] = []
    problem = None
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuids = _mig_uuids(nvml, handle) or [nvml.nvmlDeviceGetUUID(handle)]
            except nvml.NVMLError as exc:
                # One broken GPU must not hide the others.
                problem = f"GPU {index} does not answer ({exc})"
                continue
            devices.extend(Device(id=uuid, gpu_index=index) for uuid in uuids)
    except nvml.NVMLError as exc:
        problem = f"the NVIDIA driver does not list its GPUs ({exc})"
    finally:
        nvml.nvmlShutdown()
    if not devices and problem is None:
        problem = "the NVIDIA driver lists no GPU"
    return DriverReport(tuple(devices), problem)


def _mig_uuids(nvml: Any, handle: Any) -> list[str]:
    try:
        enabled, _pending = nvml.nvmlDeviceGetMigMode(handle)
        slots = nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if enabled else 0
    except nvml.NVMLError:
        return []  # most GPUs know no MIG
    uuids = []
    for slot in range(slots):
        try:
            uuids.append(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)))
        except nvml.NVMLError:
            continue  # the slots in use need not be the first ones
    return uuids


@dataclass(frozen=True)
class ClassDevices:
    """The devices of one class here, in order; `problem` says why there are none, or fewer than the class lists."""

    devices: tuple[Device, ...]
    problem: str | None = None


def devices_of(
    gpu_class: GpuClass,
    driver: Callable[[], DriverReport] = nvidia_devices,
    environment: Mapping[str, str] = os.environ,
) -> ClassDevices:
    """Find the devices of a class on this machine; `auto` leaves out those that CUDA_VISIBLE_DEVICES hides from us."""
    local = gpu_class.local
    if local is None:
        return ClassDevices((), "the class has no 'local' section")
    if local.simulated is not None:
        count = local.simulated
        simulated = tuple(Device(id=f"simulated:{gpu_class.name}/{number}") for number in range(count))
        return ClassDevices(simulated, None if count else "the class simulates 0 devices")
    report = driver()
    if isinstance(local.devices, tuple):
        chosen = tuple(device for device in report.devices if device.gpu_index in local.devices)
        missing = sorted(set(local.devices) - {device.gpu_index for device in chosen})
        if not missing:
            return ClassDevices(chosen)
        absent = f"the class lists GPU {', '.join(map(str, missing))}, which this machine does not have"
        return ClassDevices(chosen, report.problem or absent)
    visible = visible_devices(report.devices, environment.get("CUDA_VISIBLE_DEVICES"))
    if report.devices and not visible:
        return ClassDevices((), "CUDA_VISIBLE_DEVICES of this process hides them all")
    return ClassDevices(visible, report.problem)


def visible_devices(devices: Sequence[Device], setting: str | None) -> tuple[Device, ...]:
    """Return the devices that a value of CUDA_VISIBLE_DEVICES leaves: numbers, or UUIDs that may be cut short.

    As CUDA does, stop at the first entry that names no device. Numbers are taken as NVML's.
    """
    if setting is None:
        return tuple(devices)
    visible: list[Device] = []
    for entry in filter(None, (part.strip() for part in setting.split(","))):
        matches = [
            device
            for device in devices
            if (entry.isdecimal() and device.gpu_index == int(entry))
            or (entry.startswith(("GPU-", "MIG-")) and device.id.startswith(entry))
        ]
        if not matches:
            break
        visible.extend(device for device in matches if device not in visible)
    return tuple(visible)
