"""A job's states: pure. Which state follows which event, and the story of one that cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.errors import Conflict


class JobEvent(StrEnum):
    """What can happen to a job."""

    CLAIMED = "claimed"  # a process took it
    WAITS = "waits"  # it needs a worker and its GPU class has no room, or it waits for another job
    STARTS = "starts"  # what it waited for is there, or it goes on to its next phase
    PAUSES = "pauses"
    RESUMES = "resumes"  # someone wants a paused, failed or cancelled job to go on
    FINISHES = "finishes"
    FAILS = "fails"
    CANCELS = "cancels"
    OWNER_DIED = "owner_died"  # the process that ran it is gone, or gave it back


_Q, _W, _R, _P = JobState.QUEUED, JobState.WAITING, JobState.RUNNING, JobState.PAUSED

_WHILE_OWNED: Mapping[JobEvent, JobState] = {
    JobEvent.WAITS: _W,
    JobEvent.STARTS: _R,
    JobEvent.PAUSES: _P,
    JobEvent.FINISHES: JobState.FINISHED,
    JobEvent.FAILS: JobState.FAILED,
    JobEvent.CANCELS: JobState.CANCELLED,
    JobEvent.OWNER_DIED: _Q,
}

TRANSITIONS: Mapping[JobState, Mapping[JobEvent, JobState]] = {
    _Q: {JobEvent.CLAIMED: _R, JobEvent.PAUSES: _P, JobEvent.CANCELS: JobState.CANCELLED},
    _W: _WHILE_OWNED,
    _R: _WHILE_OWNED,
    _P: {JobEvent.RESUMES: _Q, JobEvent.CANCELS: JobState.CANCELLED},
    JobState.FINISHED: {},
    JobState.FAILED: {JobEvent.RESUMES: _Q},
    JobState.CANCELLED: {JobEvent.RESUMES: _Q},
}

ENDS_WITH_PROCESS = frozenset({"query"})
"""Kinds of jobs whose result lives in the process that reads it: nobody else can go on with one, nor hold it."""


class InvalidTransition(Conflict):
    """What was asked of a job cannot be in its state; `state`, `event` and `history` say more."""


def transition(state: JobState, event: JobEvent, history: Sequence[JobEvent] = ()) -> JobState:
    """Return the state that follows.

    Parameters
    ----------
    state, event
        Where the job is, and what happens to it.
    history
        What happened to it before, for the story that an error tells.

    Raises
    ------
    InvalidTransition
        The event cannot happen in that state.
    """
    allowed = TRANSITIONS[state]
    if event in allowed:
        return allowed[event]
    possible = ", ".join(allowed) or "nothing: its story is over"
    story = f" So far: {' → '.join(history)}." if history else ""
    raise InvalidTransition(
        f"A job that is {state} cannot be told '{event}'; possible is {possible}.{story}",
        state=state,
        event=event,
        history=tuple(history),
    )


def replay(events: Iterable[JobEvent]) -> JobState:
    """Return the state in which a submitted job is after these events.

    Raises
    ------
    InvalidTransition
        One of them could not happen; the error tells those before it.
    """
    state = JobState.QUEUED
    history: list[JobEvent] = []
    for event in events:
        state = transition(state, event, history)
        history.append(event)
    return state


def states_before(event: JobEvent) -> frozenset[JobState]:
    """Return the states in which an event can happen: what a compare-and-set expects."""
    return frozenset(state for state, allowed in TRANSITIONS.items() if event in allowed)
