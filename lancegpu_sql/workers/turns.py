"""The process's main thread, lent to user code turn by turn.

User code leaves things behind in it: a timer whose signal handler raises, an exception that another thread throws into
it. They strike between any two steps of whatever runs there. So nothing runs there but the turns themselves, one that
was struck is answered all the same, and everything else has a thread of its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

Value = TypeVar("Value")

EXIT_FAULT = 70
"""EX_SOFTWARE of sysexits.h."""

_MOST_STRAYS = 100
# A timer that repeats strikes again while the last strike is dealt with.
_NETS = 4

# What user code replaces in these modules must not reach the worker.
_exit, _process_id = os._exit, os.getpid


class _Nothing:
    """No value yet: None is one."""


@dataclass(eq=False)
class _Turn(Generic[Value]):
    act: Callable[[], Value]
    begun: bool = False
    value: Value | type[_Nothing] = _Nothing
    error: BaseException | None = None
    done: SimpleQueue[None] = field(default_factory=SimpleQueue)


class Turns:
    """Runs what other threads hand in, one after the other, in the thread that calls `serve`."""

    def __init__(self) -> None:
        # Re-entrant, unlike Queue: a signal handler may come while the thread is inside `get`.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._turn: _Turn[object] | None = None
        self._stray: BaseException | None = None
        self._strays: deque[BaseException] = deque(maxlen=_MOST_STRAYS)
        self._over = False
        self._server: threading.Thread | None = None
        self._process_id = _process_id()

    def serve(self) -> None:
        """Serve turns until `end` is called."""
        self._server = threading.current_thread()
        self._serve(_NETS)

    def take(self, act: Callable[[], Value]) -> Value:
        """Run `act` in the serving thread and wait; return its value, or raise what it raised. One caller at a time."""
        turn = _Turn(act)
        self._turn = cast("_Turn[object]", turn)
        self._bell.put(None)
        turn.done.get()
        self._turn = None
        if turn.value is not _Nothing:
            return cast("Value", turn.value)
        assert turn.error is not None
        raise turn.error

    def end(self) -> None:
        """Let `serve` return; no turn may be under way."""
        self._over = True
        self._bell.put(None)

    @property
    def alive(self) -> bool:
        """Whether the serving thread lives, or is still to come."""
        return self._server is None or self._server.is_alive()

    def strays(self) -> tuple[BaseException, ...]:
        """Return what was raised outside of any turn since the last time."""
        return tuple(self._strays.popleft() for _ in range(len(self._strays)))

    def _serve(self, nets: int) -> None:
        if nets:
            while not self._over:
                try:
                    self._serve(nets - 1)
                except BaseException as exc:
                    self._stray = exc  # and nothing more: what is struck here falls into the next net
            return
        while not self._over:
            if self._stray is not None:
                self._settle(self._stray)
                self._stray = None
            self._bell.get()
            self._serve_turn()

    def _serve_turn(self) -> None:
        turn = self._turn
        if turn is None or turn.begun:
            return
        turn.begun = True
        try:
            turn.value = turn.act()
        except BaseException as exc:
            turn.error = exc
        if _process_id() != self._process_id:
            _exit(EXIT_FAULT)  # user code forked and the child came back from its call: it is no worker
        turn.done.put(None)

    def _settle(self, stray: BaseException) -> None:
        """Answer the turn that was struck, if one was; one that was not begun is rung for again. Safe to repeat."""
        turn = self._turn
        if turn is not None and turn.begun:
            if turn.value is _Nothing and turn.error is None:
                turn.error = stray
            turn.done.put(None)
        else:
            self._strays.append(stray)
        self._bell.put(None)
