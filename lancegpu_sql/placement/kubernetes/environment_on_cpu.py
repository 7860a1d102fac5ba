"""An environment made by a pod without GPU, on a volume that workers of a GPU class mount: before a GPU is asked for."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

from lancegpu_sql.errors import Cancelled, WorkerLost
from lancegpu_sql.placement.interface import Listener, Placement
from lancegpu_sql.placement.request import (
    Lost,
    PlacementEvent,
    Preparing,
    Ready,
    Refused,
    Waiting,
    Wanted,
    WorkerRequest,
)

_LOOK_SECONDS = 0.1


def prepare_on_cpu(
    placement: Placement, request: WorkerRequest, listener: Listener, interrupted: Callable[[], bool]
) -> None:
    """Ask for a CPU worker whose pod makes the environment before it serves, and give it back once it does.

    Parameters
    ----------
    request
        For that worker.
    listener
        Told for what it waits, and that the environment is being made.

    Raises
    ------
    EnvironmentFailed, PlacementError
        It cannot be made, or the pod not be had.
    WorkerLost
        The pod ended.
    Cancelled
        `interrupted` said so.
    """
    heard: SimpleQueue[PlacementEvent] = SimpleQueue()
    ticket = placement.ask(request, heard.put)
    try:
        while True:
            try:
                event = heard.get(timeout=_LOOK_SECONDS)
            except Empty:
                if interrupted():
                    raise Cancelled("cancelled while the Function's environment was made") from None
                continue
            match event:
                case Ready() | Wanted():
                    return
                case Refused(error):
                    raise error
                case Lost(cause, message):
                    raise WorkerLost(
                        f"the pod that makes the environment of {request.function} ended: {message}",
                        cause=cause,
                        function=request.function,
                        version=request.version,
                        owner="environment",
                    )
                case Waiting() | Preparing():
                    listener(event)
    finally:
        ticket.release(grace_seconds=0)
