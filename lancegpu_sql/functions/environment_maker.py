"""Makes an environment in a container that starts before a worker's, and notes where it is.

`python -m lancegpu_sql.functions.environment_maker` is that container's program; variables say what to make, and where.
"""

from __future__ import annotations

import compileall
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.functions.environment import PLACE_VARIABLE, Environment
from lancegpu_sql.functions.environment_store import EnvironmentStore

LOCK_VARIABLE = "LANCEGPU_WORKER_LOCK"
"""The file that holds the lock."""

PYTHON_VARIABLE = "LANCEGPU_WORKER_PYTHON"
"""Its minor version."""

IMPORTS_VARIABLE = "LANCEGPU_WORKER_IMPORTS"
"""The modules that must be there, with spaces between them."""

FOLDER_VARIABLE = "LANCEGPU_WORKER_ENVIRONMENTS"
"""Where environments are kept."""

BUILDS_VARIABLE = "LANCEGPU_WORKER_BUILDS"
"""Not empty where packages without a wheel may be built."""

EXIT_FAILED = 69  # EX_UNAVAILABLE of sysexits.h
"""How the container ends where the environment cannot be made, however often one tries."""

_LAST_WORDS = Path("/dev/termination-log")
_LAST_WORDS_BYTES = 4096  # what a kubelet takes over into the pod's status


def make(variables: Mapping[str, str]) -> None:
    """Make the environment and note where it is.

    Raises
    ------
    EnvironmentFailed, StorageError
        See `EnvironmentStore.make`.
    """
    imports = tuple(variables.get(IMPORTS_VARIABLE, "").split())
    environment = Environment(variables[PYTHON_VARIABLE], Path(variables[LOCK_VARIABLE]).read_text(), imports)
    folder = Path(variables[FOLDER_VARIABLE])
    # Beside the environments: packages are then linked, not copied.
    os.environ.setdefault("UV_CACHE_DIR", str(folder / "cache"))
    store = EnvironmentStore(folder, build_packages=bool(variables.get(BUILDS_VARIABLE)))
    is_new = store.find(environment) is None
    ready = store.make(environment)
    if is_new:
        # Workers may find the folder read-only, and could keep no compiled code.
        compileall.compile_dir(ready.folder / "lib", quiet=2)
    place = Path(variables[PLACE_VARIABLE])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"python": str(ready.python), "variables": ready.variables("")}))


def main() -> int:
    """Return the container's exit status."""
    try:
        make(os.environ)
    except LanceGpuError as problem:
        words = problem.message.encode()[:_LAST_WORDS_BYTES]
        with suppress(OSError):
            _LAST_WORDS.write_bytes(words)
        sys.stderr.write(f"{problem.message}\n")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
