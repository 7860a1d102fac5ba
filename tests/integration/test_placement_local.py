from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from placement_program import STAND_IN
from placement_suite import Asked, PlacementSuite

from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.local_ticket import LocalTicket


class TestLocalPlacement(PlacementSuite):
    @pytest.fixture
    def placement(self, tmp_path: Path) -> Iterator[LocalPlacement]:
        placement = LocalPlacement(tmp_path / "run", command=STAND_IN)
        yield placement
        placement.close()

    @pytest.fixture
    def lose(self) -> Callable[[Asked], None]:
        def lose(asked: Asked) -> None:
            assert isinstance(asked.ticket, LocalTicket)
            pid = asked.ticket.worker_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

        return lose
