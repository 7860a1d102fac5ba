from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from placement_suite import Asked, PlacementSuite

from lancegpu_sql.testing import MemoryPlacement, MemoryTicket


class TestMemoryPlacement(PlacementSuite):
    @pytest.fixture
    def placement(self) -> Iterator[MemoryPlacement]:
        placement = MemoryPlacement()
        yield placement
        placement.close()

    @pytest.fixture
    def lose(self) -> Callable[[Asked], None]:
        def lose(asked: Asked) -> None:
            assert isinstance(asked.ticket, MemoryTicket)
            asked.ticket.lose()

        return lose
