from __future__ import annotations

import pytest

from lancegpu_sql.placement.request import Lost
from lancegpu_sql.placement.worker_process import explain_death


def explain(exit_code: int, *, killed_for_memory: bool = False, last_words: str = "") -> Lost:
    return explain_death("worker 7", exit_code, killed_for_memory=killed_for_memory, last_words=last_words)


@pytest.mark.parametrize(
    ("exit_code", "killed_for_memory", "cause", "words"),
    [
        (0, False, "exit", "worker 7 ended with exit code 0"),
        (137, False, "exit", "worker 7 ended with exit code 137"),
        (-11, False, "signal", "worker 7 was killed by SIGSEGV"),
        (-9, False, "signal", "worker 7 was killed by SIGKILL"),
        (-9, True, "memory", "worker 7 was killed by the kernel because memory ran out"),
        (-15, True, "signal", "worker 7 was killed by SIGTERM"),
        (-60, False, "signal", "worker 7 was killed by signal 60"),
    ],
)
def test_ways_to_die_are_told_apart(exit_code: int, killed_for_memory: bool, cause: str, words: str) -> None:
    lost = explain(exit_code, killed_for_memory=killed_for_memory)
    assert lost.cause == cause
    assert lost.message.startswith(words)


def test_last_words_are_told() -> None:
    assert explain(1, last_words="no model").message == "worker 7 ended with exit code 1; its last words:\nno model"
