"""How long the first worker may be waited for."""

from __future__ import annotations

import pytest

from lancegpu_sql.apply.patience import Patience
from lancegpu_sql.errors import WaitedTooLong
from lancegpu_sql.placement.request import Starting, Waiting

FULL = Waiting("in_use", "all GPUs are in use")


def heard(*events: tuple[Waiting | Starting, float], limit_seconds: float | None = 10.0) -> Patience:
    patience = Patience(limit_seconds, "embed", "l4")
    for event, now in events:
        patience.hear(event, now)
    return patience


def test_a_wait_counts_from_its_first_word_whatever_is_said_later() -> None:
    patience = heard((FULL, 100.0), (Waiting("cordoned", "node n1 is cordoned"), 109.0))
    patience.check(109.9)
    with pytest.raises(WaitedTooLong, match=r"embed waited for GPU class 'l4' .* node n1 is cordoned"):
        patience.check(110.0)


def test_a_wait_that_ended_counts_no_more() -> None:
    patience = heard((FULL, 100.0), (Starting("scheduled"), 105.0), (FULL, 108.0))
    patience.check(117.9)
    with pytest.raises(WaitedTooLong):
        patience.check(118.0)


def test_without_a_limit_nobody_runs_out_of_patience() -> None:
    heard((FULL, 0.0), limit_seconds=None).check(1e9)
