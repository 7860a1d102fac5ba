"""Who is called when something befalls a schedule, and what comes of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
from refresh_kit import PATIENCE_SECONDS

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.jobs.schedules.hooks import HookCaller, hook_of, hook_told


@pytest.fixture
def caller() -> Iterator[HookCaller]:
    caller = HookCaller(0.5, commands=True)
    yield caller
    caller.close(PATIENCE_SECONDS)


def outcome(caller: HookCaller, hook: object) -> str | None:
    """What is told of a call."""
    heard: list[str | None] = []
    done = threading.Event()

    def told(problem: str | None) -> None:
        heard.append(problem)
        done.set()

    chosen = hook_of(hook, "hook")
    assert chosen is not None
    caller.call(chosen, {"event": "failure"}, told)
    assert done.wait(PATIENCE_SECONDS)
    return heard[0]


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def test_a_command_gets_the_facts_as_json() -> None:
    patient = HookCaller(PATIENCE_SECONDS, commands=True)
    program = "import json, sys; sys.exit(json.load(sys.stdin) != {'event': 'failure'})"
    assert outcome(patient, python(program)) is None
    patient.close(PATIENCE_SECONDS)


def test_a_command_that_fails_is_told_with_the_end_of_what_it_said() -> None:
    patient = HookCaller(PATIENCE_SECONDS, commands=True)
    assert outcome(patient, python("import sys; sys.exit('no such pager')")) == "it ended with status 1: no such pager"
    patient.close(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (["sleep", "600"], "timed out"),
        (["/nowhere/at/all"], "No such file"),
        ("http://127.0.0.1:9/", "refused"),
    ],
)
def test_what_cannot_be_called_is_told_and_the_next_is_called(caller: HookCaller, hook: object, told: str) -> None:
    assert told in str(outcome(caller, hook))
    assert outcome(caller, ["true"]) is None


def test_commands_are_not_run_where_they_are_turned_off() -> None:
    caller = HookCaller(1.0, commands=False)
    assert "hook_commands" in str(outcome(caller, ["true"]))
    caller.close(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "wrong", ["example.org/x", "file:///etc/passwd", "", [], [""], ["a", 1], 7, {"url": "http://a"}]
)
def test_what_is_neither_a_url_nor_a_command_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="URL"):
        hook_of(wrong, "on_failure")


def test_a_url_is_shown_without_its_secrets() -> None:
    hook = hook_of("https://me:secret@example.org/hooks/T0/B0?token=x", "hook")
    assert hook is not None
    assert hook_told(hook) == "https://example.org/…"
