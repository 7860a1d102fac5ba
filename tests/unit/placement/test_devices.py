from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lancegpu_sql.placement.devices import Device, DriverReport, devices_of, nvidia_devices, visible_devices
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices

TWO = (Device("GPU-aaaa", 0), Device("GPU-bbbb", 1))


class DriverError(Exception):
    """What the driver raises."""


class Driver(SimpleNamespace):
    """Behaves like `pynvml`: each GPU is a UUID, a list of the UUIDs of its MIG instances (None: a gap), or broken."""

    NVMLError = DriverError

    def __init__(self, *gpus: str | list[str | None] | DriverError) -> None:
        self.gpus = gpus
        self.is_open = False

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        if isinstance(self.gpus[index], DriverError):
            raise self.gpus[index]
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return handle if isinstance(handle, str) else "GPU-that-is-cut"

    def nvmlDeviceGetMigMode(self, handle: Any) -> tuple[int, int]:
        if isinstance(handle, str):
            raise DriverError("Not Supported")
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:
        return len(handle)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, slot: int) -> str:
        if handle[slot] is None:
            raise DriverError("Not Found")
        return str(handle[slot])


class NoDriver(Driver):
    def nvmlInit(self) -> None:
        raise DriverError("Shared Library Not Found")


def of(devices: Any, report: DriverReport, visible: str | None = None) -> tuple[tuple[str, ...], str | None]:
    gpu_class = GpuClass(name="l4", local=LocalDevices(devices=devices))
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = devices_of(gpu_class, lambda: report, environment)
    return tuple(device.id for device in found.devices), found.problem


def test_the_driver_lists_its_gpus() -> None:
    assert nvidia_devices(Driver("GPU-aaaa", "GPU-bbbb")) == DriverReport(TWO)


def test_a_gpu_that_is_cut_gives_its_instances() -> None:
    report = nvidia_devices(Driver("GPU-aaaa", ["MIG-1", None, "MIG-2"]))
    assert [(device.id, device.gpu_index) for device in report.devices] == [("GPU-aaaa", 0), ("MIG-1", 1), ("MIG-2", 1)]


def test_a_gpu_that_could_be_cut_but_is_not_is_one_device() -> None:
    assert [device.id for device in nvidia_devices(Driver([])).devices] == ["GPU-that-is-cut"]


def test_no_driver_means_no_devices() -> None:
    assert nvidia_devices(NoDriver()) == DriverReport(
        (), "no usable NVIDIA driver was found (Shared Library Not Found)"
    )


def test_a_broken_gpu_does_not_hide_the_others() -> None:
    report = nvidia_devices(Driver(DriverError("fell off the bus"), "GPU-bbbb"))
    assert report == DriverReport((Device("GPU-bbbb", 1),), "GPU 0 does not answer (fell off the bus)")


def test_the_driver_is_let_go() -> None:
    driver = Driver("GPU-aaaa")
    nvidia_devices(driver)
    assert not driver.is_open


def test_auto_takes_all() -> None:
    assert of("auto", DriverReport(TWO)) == (("GPU-aaaa", "GPU-bbbb"), None)


def test_auto_keeps_to_what_this_process_may_see() -> None:
    assert of("auto", DriverReport(TWO), visible="1") == (("GPU-bbbb",), None)


def test_auto_says_when_this_process_may_see_none() -> None:
    assert of("auto", DriverReport(TWO), visible="") == ((), "CUDA_VISIBLE_DEVICES of this process hides them all")


def test_auto_without_a_driver_says_so() -> None:
    assert of("auto", DriverReport((), "no driver")) == ((), "no driver")


def test_a_list_takes_the_devices_with_these_numbers() -> None:
    assert of((1,), DriverReport(TWO)) == (("GPU-bbbb",), None)


def test_a_list_says_which_devices_are_missing() -> None:
    assert of((1, 5), DriverReport(TWO)) == (
        ("GPU-bbbb",),
        "the class lists GPU 5, which this machine does not have",
    )


def test_simulated_devices_say_that_they_are() -> None:
    found = devices_of(GpuClass(name="l4", local=LocalDevices(simulated=2)))
    assert [device.id for device in found.devices] == ["simulated:l4/0", "simulated:l4/1"]
    assert all(device.simulated for device in found.devices)


def test_a_class_without_a_local_section_has_none() -> None:
    assert devices_of(GpuClass(name="l4")).problem == "the class has no 'local' section"


@pytest.mark.parametrize(
    ("setting", "ids"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb"]),
        ("", []),
        ("-1", []),
        ("0", ["GPU-aaaa"]),
        ("1, 0", ["GPU-bbbb", "GPU-aaaa"]),
        ("GPU-b", ["GPU-bbbb"]),
        ("0,7,1", ["GPU-aaaa"]),
        ("0,0", ["GPU-aaaa"]),
    ],
)
def test_a_setting_of_cuda_is_read_as_cuda_does(setting: str | None, ids: list[str]) -> None:
    assert [device.id for device in visible_devices(TWO, setting)] == ids
