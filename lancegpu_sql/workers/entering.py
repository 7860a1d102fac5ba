"""A worker of a pod goes on in the environment that was made for its Function, in the same process."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lancegpu_sql.functions.environment import PLACE_VARIABLE


def enter_environment(arguments: list[str]) -> None:
    """Start over as the environment's interpreter, where a container before this one made one; return where none did."""
    place = os.environ.pop(PLACE_VARIABLE, "")
    if not place:
        return
    made = json.loads(Path(place).read_text())
    variables = {**os.environ, **made["variables"]}
    variables["PATH"] = f"{made['variables']['PATH']}{os.environ.get('PATH', os.defpath)}"
    variables.pop("PYTHONHOME", None)
    command = [made["python"], "-P", "-m", "lancegpu_sql.workers", *arguments]
    os.execve(made["python"], command, variables)  # noqa: S606 - the same worker, with other packages
