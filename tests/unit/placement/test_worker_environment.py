from __future__ import annotations

import pytest

from lancegpu_sql.functions.options import DEVICE_VARIABLES
from lancegpu_sql.placement.worker_environment import THREAD_VARIABLES, worker_environment


def environment(
    inherited: dict[str, str] | None = None,
    *,
    devices: tuple[str, ...] = (),
    cpus: int = 1,
    function_env: dict[str, str] | None = None,
) -> dict[str, str]:
    return worker_environment(
        inherited or {}, devices=devices, cpus=cpus, function_env=function_env or {}, token="secret"
    )


def test_a_worker_sees_the_devices_it_was_given() -> None:
    assert environment(devices=("GPU-a", "MIG-b"))["CUDA_VISIBLE_DEVICES"] == "GPU-a,MIG-b"


@pytest.mark.parametrize("devices", [(), ("simulated:l4/0",)])
def test_a_worker_without_real_devices_sees_none(devices: tuple[str, ...]) -> None:
    assert environment({"CUDA_VISIBLE_DEVICES": "0"}, devices=devices)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("name", sorted(DEVICE_VARIABLES))
def test_a_function_does_not_choose_its_devices(name: str) -> None:
    assert environment(devices=("GPU-a",), function_env={name: "7"}).get(name) in (None, "GPU-a")


@pytest.mark.parametrize("name", THREAD_VARIABLES)
def test_threads_are_the_functions_cpus(name: str) -> None:
    assert environment({name: "64"}, cpus=3)[name] == "3"


def test_a_function_may_set_its_own_threads() -> None:
    assert environment(cpus=3, function_env={"OMP_NUM_THREADS": "1"})["OMP_NUM_THREADS"] == "1"


def test_the_rest_is_inherited() -> None:
    assert environment({"HOME": "/home/me"})["HOME"] == "/home/me"


def test_the_way_to_the_catalog_is_not_inherited() -> None:
    assert "LANCEGPU_CATALOG" not in environment({"LANCEGPU_CATALOG": "postgresql://me:secret@host/shop"})


def test_the_token_is_not_the_functions_to_set() -> None:
    assert environment(function_env={"LANCEGPU_WORKER_TOKEN": "mine"})["LANCEGPU_WORKER_TOKEN"] == "secret"
