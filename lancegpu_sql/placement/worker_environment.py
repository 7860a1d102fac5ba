"""The environment of a worker's process; placement alone decides which devices it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lancegpu_sql.functions.options import DEVICE_VARIABLES

TOKEN_VARIABLE = "LANCEGPU_WORKER_TOKEN"  # noqa: S105 - a name
RESULTS_VARIABLE = "LANCEGPU_WORKER_RESULTS"
WITHHELD_VARIABLES = ("LANCEGPU_CATALOG", "LANCEGPU_STORAGE_OPTIONS")

# Each library reads its own name, at import: once numpy is loaded it is too late.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def worker_environment(
    inherited: Mapping[str, str], *, devices: Sequence[str], cpus: int, function_env: Mapping[str, str], token: str
) -> dict[str, str]:
    """Return the environment of one worker.

    A Function may set what it likes, thread counts too, but not which devices it sees. Simulated devices and CPU
    workers see none: nothing is run on a real GPU that nobody leased. The ways to the catalog and to an object store may hold
    passwords, and user code has no use for them.
    """
    real = [device for device in devices if not device.startswith("simulated:")]
    return {
        **{name: value for name, value in inherited.items() if name not in WITHHELD_VARIABLES},
        **dict.fromkeys(THREAD_VARIABLES, str(cpus)),
        **{name: value for name, value in function_env.items() if name not in DEVICE_VARIABLES},
        "CUDA_VISIBLE_DEVICES": ",".join(real),
        TOKEN_VARIABLE: token,
    }
