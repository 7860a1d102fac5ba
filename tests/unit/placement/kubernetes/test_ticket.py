"""One request as its placement tells of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from placement_suite import request_for

from lancegpu_sql.placement import PlacementEvent, Starting, Waiting, Wanted
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket


def test_a_worker_that_starts_slowly_and_is_said_to_wait_is_wanted_once_it_starts_again():
    heard: list[PlacementEvent] = []
    anything: Any = SimpleNamespace()
    ticket = KubernetesTicket(anything, request_for(None), heard.append, anything)
    ticket.tell(Starting("pulling the image"))
    ticket.wait(Waiting("starting", "the image is large"))
    ticket.want(True)
    assert ticket.wanted
    assert Wanted() not in heard
    ticket.tell(Starting("starting the worker"))
    ticket.want(True)
    ticket.want(True)
    assert heard[3:] == [Wanted()]
