"""The worker's desk: loads, calls and closes the Function, one thing after the other.

User code gets the main thread because libraries expect it (signals, GUIs, some GPU runtimes), and always the same one.
A clerk in a thread of its own keeps the order and writes the replies, out of reach of what user code leaves behind.
Flight's threads put work on the desk and carry the replies away.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import monotonic, perf_counter  # bound here: user code may replace them in their module
from typing import NamedTuple, Protocol

import pyarrow as pa

from lancegpu_sql.workers.calls import CallFailure, FunctionLoad, LoadReport, WorkerHealth, encode_result, last_resort
from lancegpu_sql.workers.output import OutputCapture
from lancegpu_sql.workers.turns import Turns


class Loaded(Protocol):
    """What `functions.loading.load` gives."""

    def call(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the results for one batch."""

    def close(self) -> None:
        """Let the Function give up what it holds."""


# How long the replies already given may take to reach an owner that is slow to read.
_FAREWELL_SECONDS = 1.0

Loader = Callable[[FunctionLoad], tuple[Loaded, int]]
"""Gives the Function, and how many calls of it may run at a time."""

FailureOf = Callable[[BaseException], CallFailure]


class Reply(NamedTuple):
    """The answer to a call: what stands beside its values, these if there are any, and the slot that may take them."""

    message: bytes
    values: pa.RecordBatch | None = None
    slot: int | None = None


@dataclass(eq=False)
class Stream:
    """One exchange with the owner.

    `replies` wait for the thread that writes them; None ends them. With `skipping`, calls not begun yet are dropped;
    with `gone`, nobody is left to write to.
    """

    cancelled: Callable[[], bool]
    replies: SimpleQueue[Reply | None] = field(default_factory=SimpleQueue)
    skipping: bool = False
    gone: bool = False
    writer: threading.Thread | None = None


@dataclass(frozen=True)
class _Load:
    load: FunctionLoad
    report: SimpleQueue[LoadReport]


@dataclass(frozen=True)
class _Call:
    stream: Stream
    call_id: int
    batch: pa.RecordBatch
    slot: int | None


@dataclass(frozen=True)
class _End:
    stream: Stream


@dataclass(frozen=True)
class _Retire:
    pass


class Desk:
    """Work in the order it came; `run` does it until `retire` is called.

    Parameters
    ----------
    loader, failure_of
        Load a Function, and describe what it raised.
    output
        Has what user code prints.
    masked
        Makes secrets in it unreadable.
    """

    def __init__(
        self,
        loader: Loader,
        failure_of: FailureOf,
        output: OutputCapture,
        masked: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._masked = masked
        self._loader = loader
        self._failure_of = failure_of
        self._output = output
        self._turns = Turns()
        self._fault: BaseException | None = None
        # Re-entrant, unlike Queue: `retire` may come from a signal handler, anywhere.
        self._work: SimpleQueue[_Load | _Call | _End | _Retire] = SimpleQueue()
        self._loaded: Loaded | None = None
        self._load: FunctionLoad | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._computing: dict[int, float] = {}
        self._under_way: list[Future[None]] = []
        self._retiring = False
        self._calls_done = 0
        self._state: tuple[str, float] = ("empty", monotonic())
        self._streams: set[Stream] = set()

    # Called by Flight's threads.

    def load(self, load: FunctionLoad) -> LoadReport:
        """Load a Function and wait for it."""
        report: SimpleQueue[LoadReport] = SimpleQueue()
        self._work.put(_Load(load, report))
        return report.get()

    def open(self, cancelled: Callable[[], bool]) -> Stream:
        """Begin an exchange."""
        stream = Stream(cancelled)
        self._streams.add(stream)
        return stream

    def call(self, stream: Stream, call_id: int, batch: pa.RecordBatch, slot: int | None = None) -> None:
        """Put a call on the desk; its reply, which names the slot again, will be put into the stream."""
        self._work.put(_Call(stream, call_id, batch, slot))

    def end(self, stream: Stream) -> None:
        """Say that no further call of this stream will come."""
        self._work.put(_End(stream))

    def health(self) -> WorkerHealth:
        """Say what the worker is doing."""
        state, since = self._state
        if computing := list(self._computing.values()):
            state, since = "computing", min(computing)
        load = self._load
        return WorkerHealth(
            state=state,
            function=load.function if load else None,
            version=load.version if load else None,
            calls_done=self._calls_done,
            state_seconds=monotonic() - since,
        )

    @property
    def alive(self) -> bool:
        """Whether the thread that computes is there."""
        return self._turns.alive

    def retire(self) -> None:
        """Finish the call that runs, drop those behind it, close the Function and let `run` return."""
        self._retiring = True
        self._work.put(_Retire())

    # The main thread.

    def run(self) -> None:
        """Let user code run here until told to retire; raise what ended the clerk, if anything did."""
        clerk = threading.Thread(target=self._clerk, name="clerk", daemon=True)
        clerk.start()
        self._turns.serve()
        clerk.join()
        if self._fault is not None:
            raise self._fault

    # The clerk.

    def _clerk(self) -> None:
        try:
            while not self._retiring:
                # Not kept in a variable while waiting for the next: a call's batch is let go as soon as it is done.
                self._do(self._work.get())
            self._finish_calls()
            self._close()
            for stream in tuple(self._streams):
                stream.replies.put(None)
                if stream.writer is not None:
                    stream.writer.join(_FAREWELL_SECONDS)
        except BaseException as exc:
            self._fault = exc
        finally:
            self._turns.end()

    def _do(self, work: _Load | _Call | _End | _Retire) -> None:
        match work:
            case _Call():
                if self._threads is None:
                    self._reply(work)
                else:
                    self._under_way.append(self._threads.submit(self._reply, work))
            case _End(stream):
                self._finish_calls()
                self._streams.discard(stream)
                stream.replies.put(None)
            case _Load(load, report):
                report.put(self._take_up(load))

    def _reply(self, work: _Call) -> None:
        stream = work.stream
        if stream.skipping or stream.gone or self._retiring or stream.cancelled():
            return
        try:
            reply = self._answer(work.call_id, work.batch, work.slot)
        except BaseException as exc:
            # A call without an answer is waited for for ever.
            self._computing.pop(work.call_id, None)
            reply = Reply(last_resort(work.call_id, exc))
        stream.replies.put(reply)

    def _finish_calls(self) -> None:
        for under_way in self._under_way:
            under_way.result()
        self._under_way.clear()

    def _answer(self, call_id: int, batch: pa.RecordBatch, slot: int | None) -> Reply:
        failure = values = None
        started = self._computing[call_id] = monotonic()
        try:
            values = self._call(batch)
        except BaseException as exc:
            failure = self._failure_of(exc)
        self._enter("idle")
        seconds = monotonic() - started
        del self._computing[call_id]
        self._calls_done += 1
        column = None if values is None else pa.record_batch([values], names=["value"])
        return Reply(encode_result(call_id, seconds, self._printed(), failure), column, slot)

    def _call(self, batch: pa.RecordBatch) -> pa.Array:
        loaded = self._loaded
        assert loaded is not None, "a call came before a load"
        if self._threads is not None:
            return loaded.call(batch)
        return self._turns.take(lambda: loaded.call(batch))

    def _printed(self) -> tuple[str, ...]:
        """Return what user code printed, and what it raised where nobody had called it."""
        strays = tuple(
            f"[raised outside of any call, by what an earlier one left behind: {self._failure_of(stray).message}]"
            for stray in self._turns.strays()
        )
        return (*map(self._masked, self._output.take()), *strays)

    def _take_up(self, load: FunctionLoad) -> LoadReport:
        self._close()
        self._enter("loading")
        failure = None
        at_once = 1
        started = perf_counter()
        try:
            self._loaded, at_once = self._turns.take(lambda: self._loader(load))
            self._load = load
        except BaseException as exc:
            failure = self._failure_of(exc)
        # Only a Function that allows several calls at a time leaves the main thread.
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="calls") if at_once > 1 else None
        self._enter("empty" if failure else "idle")
        return LoadReport(perf_counter() - started, self._printed(), failure, at_once)

    def _close(self) -> None:
        loaded, self._loaded, self._load = self._loaded, None, None
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        if loaded is None:
            return
        try:
            self._turns.take(loaded.close)
        except BaseException as exc:
            # Nobody waits for it: the worker ends, or another Function takes its place, whose log it then begins.
            with suppress(OSError):
                os.write(2, f"{self._failure_of(exc).message}\n".encode(errors="backslashreplace"))

    def _enter(self, state: str) -> None:
        self._state = (state, monotonic())


def start_writer(stream: Stream, write: Callable[[Reply], None], gone: tuple[type[BaseException], ...]) -> None:
    """Write replies apart from reading calls: one thread for both stops for ever once Flight's windows are full."""

    def run() -> None:
        while (reply := stream.replies.get()) is not None:
            if stream.gone:
                continue
            try:
                write(reply)
            except gone:
                stream.gone = True

    writer = threading.Thread(target=run, name="replies", daemon=True)
    writer.start()
    stream.writer = writer  # from here on the desk may wait for it
