"""A process of its own that asks for a worker and says what it is told, a line each; ends when its input does.

Usage: python placement_program.py RUNTIME_FOLDER OWNER GPU_CLASS DEVICES [full-disk | children | bare]
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import uuid
from dataclasses import asdict, replace

from lancegpu_sql.errors import StorageError
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import PlacementEvent, Ready, WorkerRequest

# Says that it serves, and ends when its owner does, as a worker must.
STAND_IN = (sys.executable, "-S", "-c", "import sys; print('ready', flush=True); sys.stdin.buffer.read()")

# The same, and starts what outlives it: in its session, in one of its own, and without anything of its environment.
LEAVES_CHILDREN = (
    sys.executable,
    "-S",
    "-c",
    (
        "import subprocess, sys\n"
        "for more in ({}, {'start_new_session': True}, *[{'env': {}}] * (sys.argv[1] == 'bare')):\n"
        "    subprocess.Popen(['/bin/sleep', '600'], stdin=-3, stdout=-3, stderr=-3, **more)\n"
        "print('ready', flush=True); sys.stdin.buffer.read()"
    ),
)


def say(kind: str, **facts: object) -> None:
    print(json.dumps({"kind": kind, **facts}), flush=True)


def note(event: PlacementEvent) -> None:
    told = replace(event, results=None) if isinstance(event, Ready) else event  # memory is no text
    say(type(event).__name__, **asdict(told))


def main() -> None:
    folder, owner, name, devices, *more = sys.argv[1:]
    gpu_class = GpuClass(name=name, local=LocalDevices(simulated=int(devices)))
    placement = LocalPlacement(
        folder, command=(*LEAVES_CHILDREN, *more) if more in (["children"], ["bare"]) else STAND_IN
    )
    if more == ["full-disk"]:
        placement.free_workers(gpu_class, 1, 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    request = WorkerRequest(uuid.uuid4().hex, owner, owner, "embed", 1, gpu_class, 1, 1, {}, time.time())
    try:
        ticket = placement.ask(request, note)
    except StorageError as exc:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        say("StorageError", message=str(exc))
        return
    for line in sys.stdin:
        if line.strip() == "release":
            ticket.release()
            say("released")
        elif line.strip() == "fork":
            child = os.fork()
            if child == 0:
                ticket.release()
                os._exit(0)
            os.waitpid(child, 0)
            say("forked")
    placement.close()


if __name__ == "__main__":
    main()
