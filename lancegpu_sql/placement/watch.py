"""One thread that waits for many things at once: descriptors that become readable, and calls from other threads."""

from __future__ import annotations

import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)

Action = Callable[[], object]


class WatchThread:
    """Runs callbacks one after another on a thread of its own.

    Parameters
    ----------
    name
        The thread's name.
    on_timeout
        Runs when nothing has happened for `timeout_seconds`; None waits for as long as it takes.
    """

    def __init__(self, name: str, on_timeout: Action) -> None:
        self.timeout_seconds: float | None = None
        self._on_timeout = on_timeout
        self._selector = selectors.DefaultSelector()
        self._calls: deque[Action] = deque()
        self._lock = threading.Lock()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended = False
        self._selector.register(self._bell, selectors.EVENT_READ, self._answer_bell)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, action: Action) -> None:
        """Run `action` soon on the thread; from any thread. Once the thread has ended, nothing happens."""
        with self._lock:
            if not self._ended:
                self._calls.append(action)
                os.eventfd_write(self._bell, 1)

    def watch(self, descriptor: int, action: Action) -> None:
        """Run `action` whenever the descriptor is readable; only from the thread."""
        self._selector.register(descriptor, selectors.EVENT_READ, action)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor, before it is closed; only from the thread."""
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def close(self) -> None:
        """Do what was called for, end the thread and wait for that, unless it is this one."""
        self.call(self._end)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            ready = self._selector.select(self.timeout_seconds)
            if not ready:
                self._perform(self._on_timeout)
            for key, _ in ready:
                # An earlier callback of this round may have unwatched it, and its number may have been given anew.
                if self._selector.get_map().get(key.fd) is key:
                    self._perform(key.data)
        self._selector.close()

    def _answer_bell(self) -> None:
        os.eventfd_read(self._bell)
        for _ in range(len(self._calls)):
            self._perform(self._calls.popleft())

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            os.close(self._bell)

    def _perform(self, action: Action) -> None:
        try:
            action()
        except Exception:
            # A fault in one callback (a listener's, most likely) must not stop the events of all other requests.
            _log.exception("a callback of %s failed", self._thread.name)
