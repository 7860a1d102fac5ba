from __future__ import annotations

import pytest

from lancegpu_sql.placement.request import (
    Closing,
    Gone,
    ImpossibleTransition,
    Leased,
    Lost,
    Ready,
    RequestEvent,
    RequestState,
    RequestStory,
    Returned,
    Starting,
    Waiting,
    Wanted,
    transition,
)

WAITING = Waiting("in_use", "all devices are in use")
READY = Ready("memory://1", "secret")
LOST = Lost("signal", "killed")


@pytest.mark.parametrize(
    ("state", "event", "after"),
    [
        (RequestState.ASKED, WAITING, RequestState.WAITING),
        (RequestState.ASKED, Starting("process"), RequestState.STARTING),
        (RequestState.WAITING, WAITING, RequestState.WAITING),
        (RequestState.WAITING, Starting("process"), RequestState.STARTING),
        (RequestState.STARTING, Starting("pulling the image"), RequestState.STARTING),
        (RequestState.STARTING, WAITING, RequestState.WAITING),
        (RequestState.STARTING, READY, RequestState.READY),
        (RequestState.READY, Leased(), RequestState.LEASED),
        (RequestState.LEASED, Returned(), RequestState.IDLE),
        (RequestState.IDLE, Leased(), RequestState.LEASED),
        (RequestState.IDLE, Wanted(), RequestState.IDLE),
        (RequestState.LEASED, Wanted(), RequestState.LEASED),
        (RequestState.IDLE, Closing(), RequestState.CLOSING),
        (RequestState.WAITING, Closing(), RequestState.CLOSING),
        (RequestState.CLOSING, Gone(), RequestState.GONE),
        (RequestState.LEASED, LOST, RequestState.LOST),
        (RequestState.STARTING, LOST, RequestState.LOST),
    ],
)
def test_a_request_moves_on(state: RequestState, event: RequestEvent, after: RequestState) -> None:
    assert transition(state, event) is after


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (RequestState.ASKED, READY),
        (RequestState.WAITING, READY),
        (RequestState.READY, WAITING),
        (RequestState.WAITING, Wanted()),
        (RequestState.CLOSING, READY),
        (RequestState.CLOSING, LOST),
        (RequestState.GONE, Closing()),
        (RequestState.LOST, LOST),
        (RequestState.IDLE, Gone()),
    ],
)
def test_an_event_that_cannot_happen_is_refused(state: RequestState, event: RequestEvent) -> None:
    with pytest.raises(ImpossibleTransition):
        transition(state, event)


def test_an_impossible_event_tells_the_story_so_far() -> None:
    story = RequestStory("7")
    for event in (WAITING, WAITING, Starting("process"), LOST):
        story.meet(event)
    with pytest.raises(ImpossibleTransition, match=r"request 7: .*Waiting → Starting → Lost$"):
        story.meet(READY)


def test_no_ended_state_can_be_left() -> None:
    events: list[RequestEvent] = [
        WAITING,
        Starting("x"),
        READY,
        Leased(),
        Returned(),
        Wanted(),
        Closing(),
        Gone(),
        LOST,
    ]
    for state in (RequestState.GONE, RequestState.LOST):
        for event in events:
            with pytest.raises(ImpossibleTransition):
                transition(state, event)
