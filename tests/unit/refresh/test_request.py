"""The options of a refresh: what cannot be is refused before anything is done."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.refresh.request import RefreshOptions


@pytest.mark.parametrize("value", [0, -1, 1e300, float("inf"), float("nan")])
@pytest.mark.parametrize(
    "name", ["part_target_seconds", "call_timeout_seconds", "init_timeout_seconds", "max_wait_seconds"]
)
def test_a_time_is_one_that_can_be_waited(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=name):
        RefreshOptions.of(**{name: value})


@pytest.mark.parametrize("name", ["batch_size", "max_workers", "publication_interval_rows", "max_worker_losses"])
def test_a_count_fits_what_counts_it(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        RefreshOptions.of(**{name: 2**70})


@pytest.mark.parametrize("name", ["", "Team", "team a", "-team", "t" * 64])
def test_what_cannot_name_a_queue_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="a queue's name has"):
        RefreshOptions.of(queue=name)


@pytest.mark.parametrize("name", ["batch_size", "max_failed_rows", "call_timeout_seconds", "publication_interval_rows"])
def test_true_is_no_number(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is neither true nor false"):
        RefreshOptions.of(**{"error_policy": "skip", name: True})
