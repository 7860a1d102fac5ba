from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.placement.leases import Claim, room, settle, wanted_by, why_waiting

ME = ProcessIdentity(host="here", pid=1, started_at=1.0)
DEVICES = ("d0", "d1", "d2", "d3")


def claim(number: int, **facts: Any) -> Claim:
    values: dict[str, Any] = {
        "id": f"{number:03d}",
        "owner": f"job {number}",
        "gpu_class": "l4",
        "candidates": DEVICES[:2],
        "gpus": 1,
        "asked_at": float(number),
        "mailbox": "m",
        "process": ME,
    }
    return Claim(**{**values, **facts})


def served(claims: list[Claim]) -> dict[str, tuple[str, ...]]:
    return {one.owner: one.devices for one in settle(claims, lambda _: True)}


def test_the_oldest_gets_the_first_device_however_they_stand_in_the_ledger() -> None:
    assert served([claim(2), claim(1)]) == {"job 1": ("d0",), "job 2": ("d1",)}


def test_the_claims_of_the_dead_are_dropped_and_their_devices_given_on() -> None:
    dead = claim(1, candidates=("d0",), devices=("d0",))
    (left,) = settle([dead, claim(2, candidates=("d0",))], lambda one: one.id != dead.id)
    assert left.devices == ("d0",)


def test_an_older_request_for_two_keeps_the_free_one_from_a_younger() -> None:
    held, both, younger = claim(1, devices=("d0",)), claim(2, gpus=2), claim(3)
    assert served([held, both, younger]) == {"job 1": ("d0",), "job 2": (), "job 3": ()}


def test_a_younger_request_takes_what_no_older_one_could_use() -> None:
    held, waits, elsewhere = claim(1, devices=("d0",)), claim(2, candidates=("d0",)), claim(3, candidates=("d1",))
    assert served([held, waits, elsewhere])["job 3"] == ("d1",)


def test_a_class_at_its_limit_keeps_nothing_from_other_classes() -> None:
    held, capped = claim(1, devices=("d0",), max_workers=1), claim(2, max_workers=1)
    assert served([held, capped, claim(3, gpu_class="other")])["job 3"] == ("d1",)


def test_settling_twice_changes_nothing() -> None:
    claims = [claim(1), claim(2, gpus=2), claim(3)]
    once = settle(claims, lambda _: True)
    assert settle(once, lambda _: True) == once


@given(
    st.lists(
        st.tuples(
            st.sampled_from([DEVICES[:1], DEVICES[:2], DEVICES[1:3], DEVICES]),
            st.integers(1, 4),
            st.sampled_from([None, 1, 2]),
            st.sampled_from(["l4", "a100"]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_devices_are_given_once_within_limits_and_none_lies_idle(
    asked: list[tuple[tuple[str, ...], int, int | None, str, bool]],
) -> None:
    claims: tuple[Claim, ...] = ()
    for number, (candidates, gpus, max_workers, gpu_class, ends_oldest) in enumerate(asked):
        new = claim(number, candidates=candidates, gpus=gpus, max_workers=max_workers, gpu_class=gpu_class)
        oldest = claims[0].id if claims and ends_oldest else None
        claims = settle((*claims, new), lambda one, gone=oldest: one.id != gone)
    leased = [device for one in claims for device in one.devices]
    assert len(leased) == len(set(leased))
    for one in claims:
        assert set(one.devices) <= set(one.candidates)
        assert len(one.devices) in (0, one.gpus)
    waiting = [one for one in claims if one.waits and one.can_be_met]
    if waiting and waiting[0].max_workers is None:
        assert len(set(waiting[0].candidates) - set(leased)) < waiting[0].gpus


def test_room_counts_what_would_start_at_once() -> None:
    assert room([claim(1, candidates=DEVICES, devices=("d0",))], claim(2, candidates=DEVICES)) == 3


def test_room_leaves_out_what_older_requests_wait_for() -> None:
    claims = [claim(1, devices=("d0",)), claim(2, gpus=2)]
    assert room(claims, claim(3)) == 0


def test_a_holder_is_wanted_by_those_who_could_use_its_devices() -> None:
    holder, waiter = claim(1, candidates=("d0",), devices=("d0",)), claim(2, candidates=("d0",))
    assert wanted_by([holder, waiter], holder) == {waiter.id}


def test_a_holder_of_another_device_is_not_wanted() -> None:
    holder, waiter = claim(1, candidates=("d1",), devices=("d1",)), claim(2, candidates=("d0",), gpus=1)
    other = claim(3, candidates=("d0",), devices=("d0",))
    assert wanted_by([holder, waiter, other], holder) == frozenset()


def test_a_class_at_its_limit_wants_workers_of_its_own_class() -> None:
    holder = claim(1, devices=("d0",), max_workers=1)
    waiter = claim(2, candidates=("d1",), max_workers=1)
    assert wanted_by([holder, waiter], holder) == {waiter.id}


@pytest.mark.parametrize(
    ("claims", "problem", "reason", "message"),
    [
        (
            [claim(2), claim(1, devices=("d0", "d1"), gpus=2)],
            None,
            "in_use",
            "all 2 devices of GPU class 'l4' are in use (d0, d1 by job 1); the worker starts as soon as one is free",
        ),
        (
            [claim(2, gpus=2), claim(1, devices=("d1",))],
            None,
            "in_use",
            (
                "1 of 2 devices of GPU class 'l4' is free, in use: d1 by job 1; "
                "the worker starts as soon as 2 are free at once"
            ),
        ),
        (
            [claim(3), claim(2, gpus=2), claim(1, devices=("d1",))],
            None,
            "in_use",
            (
                "1 of 2 devices of GPU class 'l4' is free, kept for job 2, in use: d1 by job 1; "
                "the worker starts as soon as one is free; 1 older request before it"
            ),
        ),
        (
            [claim(2, max_workers=1), claim(1, devices=("d1",))],
            None,
            "max_workers",
            "GPU class 'l4' allows 1 worker at a time, in use by job 1; the worker starts as soon as one ends",
        ),
        (
            [claim(2, gpus=3)],
            None,
            "too_large",
            (
                "GPU class 'l4' has 2 devices on this machine and one worker needs 3; "
                "ask for fewer (gpus) or give the class more devices"
            ),
        ),
        (
            [claim(2, candidates=())],
            "no usable NVIDIA driver was found",
            "no_device",
            (
                "GPU class 'l4' has no devices on this machine: no usable NVIDIA driver was found; "
                "the job waits until it has, or run it where the class has devices"
            ),
        ),
    ],
    ids=["all in use", "some in use", "kept for another", "limit of the class", "too large", "no device"],
)
def test_the_message_says_why(claims: list[Claim], problem: str | None, reason: str, message: str) -> None:
    waiting = why_waiting(claims, claims[0], problem)
    assert (waiting.reason, waiting.message) == (reason, message)


def test_the_detail_names_holders_for_programs() -> None:
    holder = claim(1, devices=("d0",), worker=ProcessIdentity(host="here", pid=7, started_at=2.0))
    detail = why_waiting([holder, claim(2, gpus=2)], claim(2, gpus=2), None).detail
    assert detail["holders"] == [{"owner": "job 1", "devices": ["d0"], "pid": 1, "worker_pid": 7}]
