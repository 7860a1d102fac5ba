"""What runs on a placement's loop, and how often."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from lancegpu_sql.placement.kubernetes.loop import Loop, Sparing

PATIENCE_SECONDS = 20
BURNT_SECONDS = 0.02


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop("a test's loop")
    yield made
    made.close()


def test_what_many_ask_for_at_once_is_done_once(loop: Loop):
    begun, ended, runs = threading.Event(), threading.Event(), []
    loop.call(lambda: begun.wait(PATIENCE_SECONDS))
    sparing = Sparing(loop, "a", lambda: runs.append(1))
    for _ in range(3):
        sparing.soon()
    begun.set()
    loop.call_in(0.01, "end", ended.set)
    assert ended.wait(PATIENCE_SECONDS)
    assert runs == [1]


def test_what_takes_long_is_done_seldom(loop: Loop):
    times: list[tuple[float, float]] = []
    done = threading.Semaphore(0)

    def burn() -> None:
        begun, spent = time.monotonic(), time.thread_time()
        while time.thread_time() - spent < BURNT_SECONDS:
            pass
        times.append((begun, time.monotonic()))
        done.release()

    sparing = Sparing(loop, "burn", burn)
    for _ in range(2):
        sparing.soon()
        assert done.acquire(timeout=PATIENCE_SECONDS)
        loop.call(done.release)
        assert done.acquire(timeout=PATIENCE_SECONDS)
    (_, first_end), (second_begin, _) = times
    assert second_begin - first_end > 3 * BURNT_SECONDS
