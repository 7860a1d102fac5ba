"""The worker's Flight service: checks the token, takes loads and calls to the desk, carries replies back."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from lancegpu_sql.workers.calls import (
    CALLS_COMMAND,
    HEALTH_ACTION,
    LOAD_ACTION,
    TOKEN_HEADER,
    FunctionLoad,
    decode_call,
    with_stored,
)
from lancegpu_sql.workers.desk import Desk, Reply, start_writer
from lancegpu_sql.workers.shared_results import SharedResults

# How a stream ends when the owner cancels it, closes it in the middle, or is gone.
_OWNER_GONE = (flight.FlightError, pa.ArrowException, OSError)


@dataclass(frozen=True)
class Tls:
    """With what a worker proves who it is: certificate and private key, PEM."""

    certificate: str
    key: str


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every request that does not bring the worker's token; `heard` is called for those that do."""

    def __init__(self, token: str, heard: Callable[[], None]) -> None:
        super().__init__()
        self._token = token.encode()
        self._heard = heard

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        """Look at one request's headers before anything else happens."""
        del info
        brought = headers.get(TOKEN_HEADER, [""])[0].encode()
        if not hmac.compare_digest(brought, self._token):
            raise flight.FlightUnauthenticatedError("this worker answers its owner only")
        self._heard()


class WorkerService(flight.FlightServerBase):  # type: ignore[misc]
    """What a worker answers: two actions and one kind of exchange."""

    def __init__(
        self,
        location: str,
        token: str,
        desk: Desk,
        *,
        tls: Tls | None = None,
        heard: Callable[[], None] = lambda: None,
        results: SharedResults | None = None,
    ) -> None:
        certificates = None if tls is None else [(tls.certificate, tls.key)]
        super().__init__(location, tls_certificates=certificates, middleware={"token": TokenCheck(token, heard)})
        self._desk = desk
        self._results = results

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        """Load a Function, or tell how the worker is."""
        del context
        if action.type == LOAD_ACTION:
            return [self._desk.load(FunctionLoad.from_bytes(memoryview(action.body))).to_bytes()]
        if action.type == HEALTH_ACTION:
            if not self._desk.alive:
                raise flight.FlightServerError("the thread that computes has ended")
            return [self._desk.health().to_bytes()]
        raise flight.FlightServerError(f"unknown action {action.type!r}")

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Take calls until the owner has no more, then stay until the last reply is written."""
        if descriptor.command != CALLS_COMMAND:
            raise flight.FlightServerError(f"unknown exchange {descriptor.command!r}")
        stream = self._desk.open(context.is_cancelled)
        start_writer(stream, _Writer(writer, self._results).write, _OWNER_GONE)
        try:
            for chunk in _chunks(reader):
                head = decode_call(chunk.app_metadata.to_pybytes())
                if head is None:
                    stream.skipping = True
                else:
                    self._desk.call(stream, head.call_id, chunk.data, head.slot)
        except _OWNER_GONE:
            stream.gone = True
        self._desk.end(stream)
        assert stream.writer is not None
        stream.writer.join()


class _Writer:
    """Writes replies; the schema goes out before the first values."""

    def __init__(self, writer: flight.MetadataRecordBatchWriter, results: SharedResults | None) -> None:
        self._writer = writer
        self._results = results
        self._begun = False

    def write(self, reply: Reply) -> None:
        message, batch, slot = reply
        if batch is not None and slot is not None and self._results is not None:
            stored_bytes = self._results.store(slot, batch)
            if stored_bytes is not None:
                message, batch = with_stored(message, stored_bytes), None
        if batch is None:
            self._writer.write_metadata(message)
            return
        if not self._begun:
            self._writer.begin(batch.schema)
            self._begun = True
        self._writer.write_with_metadata(batch, message)


def _chunks(reader: flight.MetadataRecordBatchReader) -> Any:
    while True:
        try:
            yield reader.read_chunk()
        except StopIteration:
            return
