"""Waits, beside everything else, until a worker whose container runs answers at its address."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.door import NoAnswer, await_door
from lancegpu_sql.placement.request import Ready, WorkerRequest

_DOOR_SECONDS = 120.0
"""How long a worker may take from its container's start to answering; it imports Arrow, and no model."""


class Opening:
    """Knocks at the doors of workers, each on a thread of its own, and says where they are."""

    def __init__(self, authority: Authority, port: int) -> None:
        self._authority = authority
        self._port = port

    def begin(
        self, charge: Charge, pod_ip: str, on_open: Callable[[], object], on_no_answer: Callable[[str], object]
    ) -> None:
        """Knock at a worker's door; what comes of it is told from another thread."""

        def knock() -> None:
            try:
                await_door(
                    pod_ip,
                    self._port,
                    root_pem=self._authority.root_pem,
                    name=charge.name,
                    given_up=charge.given_up,
                    timeout_seconds=_DOOR_SECONDS,
                )
            except NoAnswer as exc:
                on_no_answer(str(exc))
            else:
                on_open()

        threading.Thread(target=knock, name="lancegpu-knock", daemon=True).start()

    def ready(self, charge: Charge, pod_ip: str, request: WorkerRequest) -> Ready:
        """Return how a worker that answered is spoken to."""
        host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
        return Ready(
            address=f"grpc+tls://{host}:{self._port}",
            token=charge.token,
            devices=_devices(charge, request),
            tls_root=self._authority.root_pem,
            tls_name=charge.name,
        )


def _devices(charge: Charge, request: WorkerRequest) -> tuple[str, ...]:
    if request.gpu_class is None or charge.view is None:
        return ()
    return tuple(f"{charge.view.node}/{charge.view.name}/{number}" for number in range(request.gpus))
