"""The owner's side of one worker: loading, health, and streams of calls. Flight's errors become ours here."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from lancegpu_sql.errors import Conflict, LoadTimeout, WorkerLost
from lancegpu_sql.workers.calls import (
    CALLS_COMMAND,
    HEALTH_ACTION,
    LOAD_ACTION,
    STOP_MESSAGE,
    TOKEN_HEADER,
    CallHead,
    CallResult,
    FunctionLoad,
    LoadReport,
    WorkerHealth,
    decode_result,
    encode_call,
)
from lancegpu_sql.workers.shared_results import ResultSlots

_LARGE_BYTES = 2 * 1024 * 1024
"""Of a result: its memory, taken from the C library and given back, costs more to have again than a copy of the values."""


class CallStream:
    """Calls to one worker and their results, in the order they were sent.

    `send` and `receive` belong in two threads: with one, the stream stops for ever once the bytes on their way fill
    Flight's windows. Keep a credit of calls and bytes all the same, for the worker holds what it has not yet computed.
    """

    def __init__(
        self, client: flight.FlightClient, options: flight.FlightCallOptions, slots: ResultSlots | None = None
    ) -> None:
        with _worker_errors("opening its stream of calls"):
            self._writer, self._reader = client.do_exchange(flight.FlightDescriptor.for_command(CALLS_COMMAND), options)
        self._schema: pa.Schema | None = None
        self._slots = slots
        self._lent: dict[int, int] = {}  # slots by call; of a stream that breaks nobody knows what is still written to
        self._ended = False

    def send(self, call_id: int, batch: pa.RecordBatch) -> None:
        """Send one call; every batch of a stream has the same schema.

        Raises
        ------
        ValueError
            The batch has another schema than those before.
        WorkerLost
            The worker is gone, or was made to go.
        """
        if self._schema is not None and batch.schema != self._schema:
            raise ValueError(f"a call with other columns than those before it: {batch.schema}, not {self._schema}")
        with _worker_errors("sending it a call"):
            if self._schema is None:
                self._writer.begin(batch.schema)
                self._schema = batch.schema
            slot = None if self._slots is None else self._slots.take()
            if slot is not None:
                self._lent[call_id] = slot
            self._writer.write_with_metadata(batch, encode_call(CallHead(call_id, slot)))

    def receive(self) -> CallResult | None:
        """Return the next result, or None at the stream's end.

        Raises
        ------
        WorkerLost
            The worker is gone, or was made to go.
        """
        with _worker_errors("waiting for its result"):
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                self._ended = True
                for call_id in list(self._lent):
                    self._give_back(call_id)
                return None
            values = None if chunk.data is None else _in_own_memory(chunk.data.column(0))
            result = decode_result(chunk.app_metadata.to_pybytes(), values, self._stored)
            self._give_back(result.call_id)
            return result

    def done_sending(self) -> None:
        """Say that no further call comes; the stream ends after the last result."""
        with _worker_errors("ending its stream of calls"):
            self._writer.done_writing()

    def stop(self) -> None:
        """Drop the calls not begun yet; the stream ends after the one that runs."""
        with _worker_errors("stopping its calls"):
            self._writer.write_metadata(STOP_MESSAGE)
            self._writer.done_writing()

    def cancel(self) -> None:
        """End the stream at once, from any thread; whoever sends or receives meets `WorkerLost`."""
        self._reader.cancel()

    def close(self) -> None:
        """Free the stream, cancelling it where it has not ended.

        Call it when nobody sends or receives any more; one that is only forgotten waits for its worker, however long.
        """
        if not self._ended:
            self._reader.cancel()
        with contextlib.suppress(flight.FlightError, pa.ArrowException):
            self._writer.close()

    def _stored(self, call_id: int, nbytes: int) -> pa.Array:
        if self._slots is None or call_id not in self._lent:
            raise pa.ArrowInvalid(f"values of call {call_id} in memory that it was not given")
        return self._slots.read(self._lent[call_id], nbytes)

    def _give_back(self, call_id: int) -> None:
        slot = self._lent.pop(call_id, None)
        if slot is not None and self._slots is not None:
            self._slots.give_back(slot)


# Processes in which gRPC has begun to work: this one, or one that this one was forked off.
_used_in: set[int] = set()


def check_not_forked() -> None:
    """Refuse to speak to workers where gRPC would wait for ever, or end the process.

    Raises
    ------
    Conflict
        This process was forked off one that spoke to workers.
    """
    if _used_in - {os.getpid()}:
        raise Conflict(
            "This process was forked off one that had used workers, and connections to workers do not outlive that. Start it "
            'with multiprocessing\'s "spawn" or "forkserver" and connect there, or fork before anything is computed.'
        )


class WorkerClient:
    """Speaks to one worker process.

    Parameters
    ----------
    address
        A URI for Flight, as `grpc+unix:///run/…/w.sock`.
    token
        The secret without which the worker answers nothing.
    tls_root, tls_name
        For ``grpc+tls://`` addresses: the certificate (PEM) that the worker's own must be signed by, and the name that
        it must bear; the address proves nothing, for another pod may get it next.
    results
        Memory that the worker shares with this process, for large results; None where it runs elsewhere.
    """

    def __init__(
        self,
        address: str,
        token: str,
        tls_root: bytes | None = None,
        tls_name: str | None = None,
        results: mmap.mmap | None = None,
    ) -> None:
        self._slots = None if results is None else ResultSlots(results)
        self._headers = [(TOKEN_HEADER.encode(), token.encode())]
        options: dict[str, Any] = {}
        if tls_root is not None:
            # A proxy for the world outside has no business between owner and worker.
            options = {"tls_root_certs": tls_root, "generic_options": [("grpc.enable_http_proxy", 0)]}
        if tls_name is not None:
            options["override_hostname"] = tls_name
        _used_in.add(os.getpid())
        self._client = flight.FlightClient(address, **options)

    def load(self, load: FunctionLoad) -> LoadReport:
        """Have the worker load a Function; user code that fails is in the report.

        Raises
        ------
        LoadTimeout
            It took longer than `init_timeout_seconds`. The worker is still at it, and good for nothing else.
        WorkerLost
            The worker is gone.
        """
        try:
            with _worker_errors("loading its Function"):
                body = self._act(LOAD_ACTION, load.to_bytes(), load.init_timeout_seconds)
        except _NoAnswer as exc:
            raise LoadTimeout(
                f"{load.function} version {load.version} was not loaded within {load.init_timeout_seconds:g} seconds. "
                "Give it more time with init_timeout_seconds, or make its __init__ faster.",
                function=load.function,
                version=load.version,
                owner="timeout",
                init_timeout_seconds=load.init_timeout_seconds,
            ) from exc
        return LoadReport.from_bytes(body)

    def health(self, timeout_seconds: float) -> WorkerHealth:
        """Ask how the worker is; it answers while a call runs, unless user code holds the interpreter lock.

        Raises
        ------
        WorkerLost
            No answer in time, or the worker is gone.
        """
        with _worker_errors("asking for its health"):
            return WorkerHealth.from_bytes(self._act(HEALTH_ACTION, b"", timeout_seconds))

    def open_stream(self) -> CallStream:
        """Begin a stream of calls."""
        return CallStream(self._client, flight.FlightCallOptions(headers=self._headers), self._slots)

    def close(self) -> None:
        """Close the connection; the worker lives on."""
        self._client.close()
        if self._slots is not None:
            self._slots.close()

    def _act(self, kind: str, body: bytes, timeout_seconds: float | None) -> bytes:
        options: dict[str, Any] = {"headers": self._headers}
        if timeout_seconds is not None:
            options["timeout"] = timeout_seconds
        (result,) = self._client.do_action(flight.Action(kind, body), flight.FlightCallOptions(**options))
        answer: bytes = result.body.to_pybytes()
        return answer


def _in_own_memory(values: pa.Array) -> pa.Array:
    """Values that are large in memory of Arrow's, which is used again; gRPC's is returned to the system each time."""
    return values if values.nbytes < _LARGE_BYTES else values.copy_to(pa.default_cpu_memory_manager())


class _NoAnswer(WorkerLost):
    """The worker did not answer within the time given."""


@contextlib.contextmanager
def _worker_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except flight.FlightTimedOutError as exc:
        raise _NoAnswer(f"the worker did not answer in time, {doing}", cause="unreachable") from exc
    # A stream that breaks in the middle of a message reaches Python as ArrowInvalid or as an OSError.
    except (flight.FlightError, pa.ArrowException, OSError) as exc:
        raise WorkerLost(f"the worker ended, {doing}: {_first_line(exc)}", cause="unreachable") from exc


def _first_line(exc: BaseException) -> str:
    lines = str(exc).splitlines()
    return lines[0] if lines else type(exc).__name__
