"""What can be said about a Function beside its code, and whether it makes sense."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.environment import checked_code, checked_pip, checked_python_version
from lancegpu_sql.functions.secret_sources import checked_secrets
from lancegpu_sql.functions.sizes import MOST_BYTES, parse_bytes

if TYPE_CHECKING:
    import pyarrow as pa

PLACEMENT_OPTIONS = (
    "gpu", "gpu_class", "gpus", "cpus", "concurrency", "batch_size", "gpu_memory_bytes", "image", "secrets",
)  # fmt: skip
"""Where and how a Function runs; none of them changes what it computes."""

_MOST = 2**31 - 1
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEVICE_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_GDS",
        "NVIDIA_GDRCOPY",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK",
    }
)
"""The placement's to set: a worker's devices are leased to it, and a Function that set these could reach another job's."""


def is_placement_variable(name: str) -> bool:
    """Tell whether an environment variable is the placement's to set."""
    return name in DEVICE_VARIABLES or name.startswith("LANCEGPU_")


@dataclass(frozen=True)
class FunctionOptions:
    """Options of `@function`; see there for what each means."""

    name: str | None = None
    input_schema: pa.Schema | None = None
    output_schema: pa.Schema | None = None
    gpu: bool = False
    gpu_class: str | None = None
    gpus: int = 1
    cpus: int = 1
    concurrency: int = 1
    batch_size: int | None = None
    deterministic: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    pip: tuple[str, ...] = ()
    python_version: str | None = None
    code: tuple[str, ...] = ()
    gpu_memory_bytes: int | None = None
    image: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", checked_env(self.env))
        object.__setattr__(self, "pip", checked_pip(self.pip))
        checked_python_version(self.python_version)
        object.__setattr__(self, "code", checked_code(self.code))
        object.__setattr__(self, "gpu_memory_bytes", _bytes_of(self.gpu_memory_bytes))
        object.__setattr__(self, "secrets", checked_secrets(self.secrets))
        check_placement(self.placement())
        if both := sorted(self.env.keys() & self.secrets.keys()):
            raise InvalidFunction(f"{both[0]} is in env and in secrets: leave it out of one of them.")
        if not isinstance(self.deterministic, bool):
            raise InvalidFunction(f"deterministic is True or False, not {self.deterministic!r}.")

    def placement(self) -> dict[str, Any]:
        """Give the options that say where and how a Function runs."""
        return {name: getattr(self, name) for name in PLACEMENT_OPTIONS}

    def changed(self, **changes: Any) -> FunctionOptions:
        """Give these options with some replaced.

        Raises
        ------
        InvalidFunction
            An option is unknown or its value makes no sense.
        """
        return replace(self, **known_options(changes))


def known_options(options: Mapping[str, Any], valid: tuple[str, ...] = ()) -> dict[str, Any]:
    """Refuse options that do not exist, naming the nearest one that does."""
    valid = valid or tuple(option.name for option in fields(FunctionOptions))
    for name in options:
        if name not in valid:
            near = difflib.get_close_matches(name, valid, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidFunction(
                f"There is no option {name!r}.{guess} The options are {', '.join(valid)}.", option=name
            )
    return dict(options)


def check_placement(placement: Mapping[str, Any]) -> None:
    """Refuse a placement that contradicts itself, whatever GPU classes there are.

    Raises
    ------
    InvalidFunction
        With what to write instead.
    """
    gpu, gpu_class = placement["gpu"], placement["gpu_class"]
    if not isinstance(gpu, bool):
        raise InvalidFunction(f"gpu is True or False, not {gpu!r}. The kind of GPU is named by gpu_class.")
    if gpu_class is not None and (not isinstance(gpu_class, str) or not gpu_class):
        raise InvalidFunction(f"gpu_class is the name of a GPU class, not {gpu_class!r}.")
    if gpu_class is not None and not gpu:
        raise InvalidFunction(f"gpu_class={gpu_class!r} without gpu=True: write gpu=True, gpu_class={gpu_class!r}.")
    for name in ("gpus", "cpus", "concurrency"):
        _check_count(name, placement[name])
    if placement["batch_size"] is not None:
        _check_count("batch_size", placement["batch_size"])
    if placement["gpu_memory_bytes"] is not None and not gpu:
        raise InvalidFunction("gpu_memory_bytes without gpu=True: write gpu=True, or leave it out.")
    image = placement["image"]
    if image is not None and (not isinstance(image, str) or not image.strip() or not image.isprintable()):
        raise InvalidFunction(f"image is the name of a container image, such as 'registry/path:tag', not {image!r}.")
    for name in placement["secrets"]:
        if is_placement_variable(name):
            raise InvalidFunction(f"secrets: {name} is set by the placement; choose another name.")
    if placement["gpus"] != 1 and not gpu:
        raise InvalidFunction(f"gpus={placement['gpus']} without gpu=True: write gpu=True, or leave gpus out.")


def checked_placement(placement: Mapping[str, Any]) -> dict[str, Any]:
    """Give a placement as the catalog keeps it.

    Raises
    ------
    InvalidFunction
        It makes no sense, whatever GPU classes there are.
    """
    checked = {
        **placement,
        "gpu_memory_bytes": _bytes_of(placement["gpu_memory_bytes"]),
        "secrets": checked_secrets(placement["secrets"]),
    }
    check_placement(checked)
    return checked


def _bytes_of(given: object) -> int | None:
    if given is None:
        return None
    try:
        size_bytes = parse_bytes(given)
    except ValueError as exc:
        raise InvalidFunction(f"gpu_memory_bytes: {exc}") from None
    if not isinstance(size_bytes, int) or isinstance(size_bytes, bool) or not 1 <= size_bytes <= MOST_BYTES:
        raise InvalidFunction(f"gpu_memory_bytes is a number of bytes, or a text such as '24GiB', not {given!r}.")
    return size_bytes


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidFunction(f"{name} is a whole number of at least 1, not {value!r}.")
    if value > _MOST:
        raise InvalidFunction(f"{name} is at most {_MOST}.")


def checked_env(env: Any) -> dict[str, str]:
    """Give a Function's environment variables, sorted.

    Raises
    ------
    InvalidFunction
        A name is not a variable's name, a value is not a string, or the variable belongs to the placement.
    """
    if not isinstance(env, Mapping):
        raise InvalidFunction(f"env is a dict of variable names to strings, not {env!r}.")
    for name, value in env.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            raise InvalidFunction(f"env: {name!r} cannot name an environment variable; use letters, digits and _.")
        if not isinstance(value, str):
            raise InvalidFunction(f"env: the value of {name} is a string, not {value!r}: write {str(value)!r}.")
        if "\0" in value:
            raise InvalidFunction(f"env: the value of {name} holds a zero byte, which no environment can carry.")
        if is_placement_variable(name):
            raise InvalidFunction(f"env: {name} is set by the placement; choose devices with gpu_class and gpus.")
    return dict(sorted(env.items()))
