"""A thread of its own for what DuckDB does, so that the caller's thread hears Ctrl-C at any time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

# The system may give a signal to any thread: the main one then hears of it when it wakes.
_LISTEN_SECONDS = 0.1

Result = TypeVar("Result")


class _Task(Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._result: Result | None = None
        self._error: BaseException | None = None
        self.done = threading.Event()
        self.done_at = math.inf

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as exc:
            self._error = exc
        finally:
            del self._work
            self.done_at = time.monotonic()
            self.done.set()

    def outcome(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None  # it holds the frames that hold this
            raise error
        return self._result


class Aside:
    """Does one thing after another in a thread of its own, which ends with `close`."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[_Task[Any] | None] = SimpleQueue()
        self._last: _Task[Any] | None = None
        self._thread = threading.Thread(target=_work, args=(self._tasks,), name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Result], meanwhile: Callable[[], None] = lambda: None) -> Result:
        """Do something there, and return its result or raise its error. A signal's exception ends the waiting only.

        Parameters
        ----------
        meanwhile
            Called here, every tenth of a second until it is done.
        """
        task = self._last = _Task(work)
        self._tasks.put(task)
        while not task.done.wait(_LISTEN_SECONDS):
            meanwhile()
        result: Result = task.outcome()
        return result

    def idle(self, timeout_seconds: float) -> bool:
        """Tell whether nothing is being done, waiting up to a time for it."""
        return self._last is None or self._last.done.wait(timeout_seconds)

    def idle_seconds(self) -> float:
        """For how long nothing has been done; 0 while something is."""
        return 0.0 if self._last is None else max(0.0, time.monotonic() - self._last.done_at)

    def close(self) -> None:
        """End the thread once it is idle."""
        self._tasks.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _work(tasks: SimpleQueue[_Task[Any] | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task
