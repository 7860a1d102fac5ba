"""Whose fault a failed call is."""

from __future__ import annotations

import pytest

from lancegpu_sql.apply.blame import owner_of, owner_of_loss
from lancegpu_sql.workers import CallFailure


def raised(error_type: str, message: str = "no") -> CallFailure:
    return CallFailure("raised", f"{error_type}: {message}", error_type)


@pytest.mark.parametrize(
    ("error_type", "message", "owner"),
    [
        ("ValueError", "no negative numbers", "user"),
        ("KeyError", "'CUDA error'", "user"),
        ("RuntimeError", "the model says no", "user"),
        ("MemoryError", "", "memory"),
        ("numpy._core._exceptions._ArrayMemoryError", "Unable to allocate 3. TiB", "memory"),
        ("pyarrow.lib.ArrowMemoryError", "malloc of size 1 failed", "memory"),
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB", "memory"),
        ("RuntimeError", "CUDA out of memory. Tried to allocate 2.00 GiB", "memory"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "memory"),
        ("jaxlib.xla_extension.XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while allocating", "memory"),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", "device"),
        ("torch.AcceleratorError", "CUDA error: device-side assert triggered", "device"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "device"),
        ("cupy_backends.cuda.api.runtime.CUDARuntimeError", "cudaErrorIllegalAddress", "device"),
        ("RuntimeError", "No CUDA GPUs are available", "device"),
        ("ModuleNotFoundError", "No module named 'torch'", "environment"),
        ("OSError", "[Errno 28] No space left on device", "environment"),
    ],
)
def test_an_error_has_an_owner_by_its_type_and_its_text(error_type: str, message: str, owner: str) -> None:
    assert owner_of(raised(error_type, message), on_device=True) == owner


def test_without_a_device_no_device_is_at_fault() -> None:
    assert owner_of(raised("RuntimeError", "CUDA error: no device"), on_device=False) == "user"


@pytest.mark.parametrize(
    ("kind", "owner"),
    [("wrong_type", "function"), ("wrong_length", "function"), ("load", "function"), ("internal", "ours")],
)
def test_what_was_not_raised_by_a_call_is_no_users_fault(kind: str, owner: str) -> None:
    assert owner_of(CallFailure(kind, "no"), on_device=True) == owner  # type: ignore[arg-type]


def test_a_module_that_is_missing_is_the_environments_fault() -> None:
    assert CallFailure("load", "no", "ModuleNotFoundError").load_owner == "environment"


@pytest.mark.parametrize(
    ("cause", "owner"),
    [("signal", "input"), ("exit", "input"), ("memory", "memory"), ("unreachable", "environment")],
)
def test_a_lost_worker_has_an_owner_by_its_cause(cause: str, owner: str) -> None:
    assert owner_of_loss(cause) == owner  # type: ignore[arg-type]
