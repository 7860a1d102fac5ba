"""The states of a job: which follows which, and a story for what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.catalog.models import OWNED, JobState
from lancegpu_sql.jobs.job import TRANSITIONS, InvalidTransition, JobEvent, replay, states_before, transition

E, S = JobEvent, JobState


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], S.QUEUED),
        ([E.CLAIMED], S.RUNNING),
        ([E.CLAIMED, E.WAITS], S.WAITING),
        ([E.CLAIMED, E.WAITS, E.WAITS, E.STARTS], S.RUNNING),
        ([E.CLAIMED, E.STARTS, E.FINISHES], S.FINISHED),
        ([E.CLAIMED, E.WAITS, E.CANCELS], S.CANCELLED),
        ([E.CLAIMED, E.OWNER_DIED], S.QUEUED),
        ([E.CLAIMED, E.WAITS, E.OWNER_DIED, E.CLAIMED, E.FINISHES], S.FINISHED),
        ([E.CLAIMED, E.FAILS, E.RESUMES, E.CLAIMED], S.RUNNING),
        ([E.CLAIMED, E.PAUSES, E.RESUMES], S.QUEUED),
        ([E.CANCELS, E.RESUMES], S.QUEUED),
    ],
)
def test_a_story_ends_in_its_state(events: list[JobEvent], state: JobState) -> None:
    assert replay(events) is state


@pytest.mark.parametrize("event", list(JobEvent))
def test_a_finished_job_stays_finished(event: JobEvent) -> None:
    with pytest.raises(InvalidTransition):
        transition(S.FINISHED, event)


def test_an_event_that_cannot_be_tells_its_story_and_what_is_possible() -> None:
    with pytest.raises(InvalidTransition, match=r"cancelled cannot be told 'finishes'.*resumes.*claimed → cancels"):
        replay([E.CLAIMED, E.CANCELS, E.FINISHES])


def test_a_waiting_job_can_do_all_that_a_running_one_can() -> None:
    assert TRANSITIONS[S.WAITING] == TRANSITIONS[S.RUNNING]


def test_only_a_job_that_somebody_runs_can_lose_its_owner() -> None:
    assert states_before(E.OWNER_DIED) == OWNED


@given(st.lists(st.sampled_from(JobEvent)))
def test_a_job_waits_or_runs_only_in_somebodys_hands(events: list[JobEvent]) -> None:
    state, owned = S.QUEUED, False
    for event in events:
        try:
            state = transition(state, event)
        except InvalidTransition:
            continue
        owned = event in {E.CLAIMED, E.WAITS, E.STARTS}
        assert (state in OWNED) == owned
