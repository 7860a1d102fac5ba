"""When a Function that a query computes rests, so that its workers are given back."""

from __future__ import annotations

from typing import Any

from lancegpu_sql.query.opened import OpenFunction


class Values:
    """Those of some rows."""

    done = False

    def result(self) -> Any:
        """They are never looked at."""
        raise NotImplementedError

    failed = result


class Calls:
    """They are never made."""

    def submit(self, arguments: Any) -> Values:
        """Not here."""
        raise NotImplementedError

    def close(self) -> None:
        """Not here."""


def opened(*asked: Values) -> OpenFunction:
    return OpenFunction(Calls(), list(asked), asked_at=100.0)


def test_it_rests_soon_after_nobody_reads_any_more():
    assert not opened().rests(now=100.2, unread_seconds=0.2)
    assert opened().rests(now=100.3, unread_seconds=0.3)


def test_while_somebody_waits_for_rows_it_rests_only_after_a_second():
    assert not opened().rests(now=100.9, unread_seconds=0.0)
    assert opened().rests(now=101.0, unread_seconds=0.0)


def test_what_was_asked_is_computed_first():
    values = Values()
    waits = opened(values)
    assert not waits.rests(now=200.0, unread_seconds=50.0)
    values.done = True
    assert waits.rests(now=200.0, unread_seconds=50.0)


def test_who_comes_back_in_time_finds_it_as_it_was():
    assert not opened().rests(now=100.5, unread_seconds=0.001)
