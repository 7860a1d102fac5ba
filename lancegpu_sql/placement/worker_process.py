"""One worker's process on this machine: started, heard until it serves, ended, and explained when it dies."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from lancegpu_sql.catalog import process
from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.placement.remains import MARK_VARIABLE, end_remains
from lancegpu_sql.placement.request import Lost, LostCause

_READY_LINE = b"ready"
_TAIL_BYTES = 4096
_READ_BYTES = 65536

Heard = Literal["ready", "text", "end"]


@dataclass
class _Output:
    """One of the worker's two streams: what it wrote last."""

    tail: bytes = b""

    def add(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-_TAIL_BYTES:]


class WorkerProcess:
    """A running worker.

    It leads a session of its own: a Ctrl-C meant for its owner does not reach it, and what it started ends with it. Its
    standard input is a pipe that only says, by closing, that its owner is gone or has no more use for it.

    Start it from a thread that outlives it: the worker asks the kernel to be killed with its parent, which for the
    kernel is the thread.

    It inherits the descriptors in `keeps`, and has them open for as long as it lives.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], mark: str = "", keeps: Sequence[int] = ()
    ) -> None:
        self._mark = mark
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**environment, MARK_VARIABLE: mark},
            pass_fds=keeps,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.identity = ProcessIdentity.current().model_copy(
            update={"pid": self.pid, "started_at": process.start_seconds(self.pid) or 0.0}
        )
        self.pidfd = os.pidfd_open(self.pid)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._outputs = {self._process.stdout.fileno(): _Output(), self._process.stderr.fileno(): _Output()}
        self._stdout = self._process.stdout.fileno()
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The descriptors to read from; the first one is where it says that it serves."""
        return tuple(self._outputs)

    def read(self, descriptor: int) -> Heard:
        """Take what the worker wrote, and tell what that means."""
        output = self._outputs[descriptor]
        unfinished_line = output.tail.rpartition(b"\n")[2]
        data = self._take(descriptor)
        if data == b"":
            return "end"
        says_ready = descriptor == self._stdout and _READY_LINE in (unfinished_line + (data or b"")).splitlines()
        return "ready" if says_ready else "text"

    def _take(self, descriptor: int) -> bytes | None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return None
        self._outputs[descriptor].add(data)
        return data

    def ask_to_end(self) -> None:
        """Close its input: it should end by itself."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self, grace_seconds: float) -> None:
        """Ask it to end, kill it after the grace, and return when it is gone."""
        self.ask_to_end()
        self._wait(grace_seconds)
        self.reap()

    def reap(self) -> int:
        """Kill it and all that it started, take its exit code from the kernel and return it."""
        if self._process.returncode is None:
            # While it is not reaped its number cannot be another's.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._wait(None)
            end_remains(self._mark, self.identity, is_ours=True)
        return self._process.wait()

    def last_words(self) -> str:
        """Return the end of what it wrote, its errors last."""
        for descriptor in self._outputs:
            while self._take(descriptor):
                pass
        texts = [output.tail.decode(errors="replace").strip() for output in self._outputs.values()]
        texts[0] = "\n".join(line for line in texts[0].splitlines() if line != _READY_LINE.decode())
        return "\n".join(text for text in texts if text)

    def close(self) -> None:
        """Close our ends of its pipes; nothing may watch them any more."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        os.close(self.pidfd)

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll(None if seconds is None else seconds * 1000)


def explain_death(who: str, exit_code: int, *, killed_for_memory: bool, last_words: str) -> Lost:
    """Say how a worker ended that nobody had asked to end.

    Parameters
    ----------
    who
        The worker, in words.
    exit_code
        As `subprocess` gives it: negative for a signal.
    killed_for_memory
        Whether the kernel has counted a kill for lack of memory that explains it.
    last_words
        What it wrote last.
    """
    cause: LostCause
    if exit_code == -signal.SIGKILL and killed_for_memory:
        cause = "memory"
        how = "was killed by the kernel because memory ran out; smaller batches or fewer workers at a time need less"
    elif exit_code < 0:
        cause, how = "signal", f"was killed by {_signal_name(-exit_code)}"
    else:
        cause, how = "exit", f"ended with exit code {exit_code}"
    return Lost(cause, f"{who} {how}" + (f"; its last words:\n{last_words}" if last_words else ""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
