"""Waits, beside everything else, until a worker whose container runs answers, and says where."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lancegpu_sql.errors import PlacementError
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.door import NoAnswer
from lancegpu_sql.placement.kubernetes.reach import Reach
from lancegpu_sql.placement.request import Ready, WorkerRequest


class Opening:
    """Knocks at the doors of workers, each on a thread of its own, and keeps the ways to them open."""

    def __init__(self, authority: Authority, reach: Reach) -> None:
        self._authority = authority
        self._reach = reach

    def begin(
        self,
        charge: Charge,
        pod_ip: str,
        on_open: Callable[[str], object],
        on_no_answer: Callable[[str], object],
        on_refused: Callable[[PlacementError], object],
    ) -> None:
        """Knock at a worker's door; what comes of it is told from another thread: its address, when it opened."""

        def knock() -> None:
            try:
                address = self._reach.open(
                    charge.name, pod_ip, root_pem=self._authority.root_pem, given_up=charge.given_up
                )
            except NoAnswer as exc:
                on_no_answer(str(exc))
            except PlacementError as exc:
                on_refused(exc)
            else:
                if address is not None:
                    on_open(address)

        threading.Thread(target=knock, name="lancegpu-knock", daemon=True).start()

    def end(self, charge: Charge) -> None:
        """Close the way to a worker that nobody uses any more; may take a moment."""
        self._reach.close(charge.name)

    def close(self) -> None:
        """Close every way."""
        self._reach.close_all()

    def ready(self, charge: Charge, address: str, request: WorkerRequest) -> Ready:
        """Return how a worker that answered is spoken to."""
        return Ready(
            address=f"grpc+tls://{address}",
            token=charge.token,
            devices=_devices(charge, request),
            places=() if request.gpu_class is None or charge.view is None else (str(charge.view.node),),
            tls_root=self._authority.root_pem,
            tls_name=charge.name,
        )


def _devices(charge: Charge, request: WorkerRequest) -> tuple[str, ...]:
    if request.gpu_class is None or charge.view is None:
        return ()
    return tuple(f"{charge.view.node}/{charge.view.name}/{number}" for number in range(request.gpus))
