"""Whose fault is it? Owners of what went wrong in a call, told by what the worker reported. Pure."""

from __future__ import annotations

import re

from lancegpu_sql.errors import Owner
from lancegpu_sql.placement.request import LostCause
from lancegpu_sql.workers.calls import CallFailure

_MEMORY_TYPES = re.compile(r"(^|\.)(MemoryError|_ArrayMemoryError|ArrowMemoryError|OutOfMemoryError)$")
_MEMORY_TEXT = re.compile(
    r"CUDA out of memory|HIP out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED|DefaultCPUAllocator: (can't|not enough) |Cannot allocate memory"
    r"|std::bad_alloc|Failed to allocate memory for requested buffer"
)
_DEVICE_TYPES = re.compile(
    r"(^|\.)(AcceleratorError|CUDARuntimeError|CUDADriverError|CudaAPIError|CudaDriverError|CUBLASError|CUDNNError|NVMLError\w*"
    r"|CudaSupportError|NoSuitableGPU)$"
)
_DEVICE_TEXT = re.compile(
    r"CUDA error\b|CUDA driver error|CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|cudaError(?!MemoryAllocation)\w+|cuDNN error|CUDNN_STATUS_"
    r"(?!ALLOC_FAILED)\w+|CUBLAS_STATUS_(?!ALLOC_FAILED)\w+|CUSOLVER_STATUS_\w+|NCCL error|HIP error\b|hipError\w+"
    r"|uncorrectable ECC error|device-side assert|GPU has fallen off the bus|No CUDA GPUs are available"
)
_ENVIRONMENT_TYPES = re.compile(r"(^|\.)(ImportError|ModuleNotFoundError)$")
_ENVIRONMENT_TEXT = re.compile(
    r"\[Errno (28|24|23)\]|No space left on device|Too many open files|cannot open shared object file"
)

_TOLD_BY_TEXT = re.compile(r"(^|\.)(RuntimeError|OSError|\w*RuntimeError|\w*Fail|\w*Exception|InternalError)$")
"""Errors that say so little by their type that their text has to tell; a `ValueError` that quotes one is the user's own."""


def owner_of(failure: CallFailure, *, on_device: bool) -> Owner:
    """Tell whose fault a failed call is.

    Parameters
    ----------
    failure
        What the worker reported.
    on_device
        Whether the worker has devices: without any, an error of a device's library is the user's own.
    """
    if failure.kind == "internal":
        return "ours"
    if failure.kind in ("wrong_type", "wrong_length"):
        return "function"
    if failure.kind == "load":
        return failure.load_owner
    kind, text = failure.error_type, failure.message
    by_text = _TOLD_BY_TEXT.search(kind) is not None
    if _MEMORY_TYPES.search(kind) or (by_text and _MEMORY_TEXT.search(text)):
        return "memory"
    if on_device and (_DEVICE_TYPES.search(kind) or (by_text and _DEVICE_TEXT.search(text))):
        return "device"
    if _ENVIRONMENT_TYPES.search(kind) or (by_text and _ENVIRONMENT_TEXT.search(text)):
        return "environment"
    return "user"


def owner_of_loss(cause: LostCause) -> Owner:
    """Tell whose fault it is that workers ended, one after the other, over the same rows."""
    if cause == "memory":
        return "memory"
    return "input" if cause in ("signal", "exit") else "environment"
