"""The words that owner and worker exchange, and how they stand on the wire: JSON beside Arrow's batches.

A load is one Flight action. Calls go through one `do_exchange` stream: the owner sends a record batch with
`{"call": id}`, the worker answers with a batch of one column, or with a failure as data. A failure of user code never
ends the stream: the loaded Function lives on. On one machine a call may name a slot of memory that both see
(`{"call": id, "slot": 3}`), and the worker answers that so many bytes stand there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from lancegpu_sql.errors import Owner

# Bound here: what user code puts in their place must not reach the answers.
_dumps, _loads = json.dumps, json.loads

LOAD_ACTION = "load"
HEALTH_ACTION = "health"
CALLS_COMMAND = b"calls"

TOKEN_VARIABLE = "LANCEGPU_WORKER_TOKEN"  # noqa: S105 - the variable's name
CERTIFICATE_VARIABLE = "LANCEGPU_WORKER_CERTIFICATE"
KEY_VARIABLE = "LANCEGPU_WORKER_KEY"
ORPHAN_VARIABLE = "LANCEGPU_WORKER_ORPHAN_SECONDS"
RESULTS_VARIABLE = "LANCEGPU_WORKER_RESULTS"
TOKEN_HEADER = "lancegpu-token"  # noqa: S105 - the header's name

STOP_MESSAGE = b'{"stop":true}'
"""Sent in place of a call: finish the one that runs, drop those behind it, end the stream."""

FailureKind = Literal["raised", "wrong_type", "wrong_length", "load", "close", "internal"]


@dataclass(frozen=True)
class FunctionLoad:
    """What a worker needs to load one Function version.

    Parameters
    ----------
    function, version, digest
        Which one, for messages and for finding a warm worker.
    payload
        What `functions.packaging` packed. Unpickled in the worker only.
    bound
        JSON values for the class's ``__init__`` parameters.
    output_type
        The declared result type in Arrow's text form.
    concurrency
        Calls at a time in one worker.
    init_timeout_seconds
        How long loading may take; None means as long as it takes.
    secrets
        Values for environment variables of the worker; None stands for one that it has already.
    """

    function: str
    version: int
    digest: str
    payload: bytes = field(repr=False)
    bound: Mapping[str, Any]
    output_type: str
    concurrency: int = 1
    init_timeout_seconds: float | None = None
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    def same_content(self, other: FunctionLoad) -> bool:
        """Whether a worker that has loaded `other` has loaded this."""
        return (self.function, self.version, self.digest, self.output_type, self.concurrency) == (
            other.function,
            other.version,
            other.digest,
            other.output_type,
            other.concurrency,
        ) and dict(self.bound) == dict(other.bound)

    def to_bytes(self) -> bytes:
        """Return the load as the body of an action: four bytes of length, JSON, then the payload as it is."""
        head = _dumps(
            {
                "function": self.function,
                "version": self.version,
                "digest": self.digest,
                "bound": dict(self.bound),
                "output_type": self.output_type,
                "concurrency": self.concurrency,
                "secrets": dict(self.secrets),
            }
        ).encode()
        return b"".join((len(head).to_bytes(4, "big"), head, self.payload))

    @classmethod
    def from_bytes(cls, body: memoryview) -> FunctionLoad:
        """Read what `to_bytes` wrote."""
        size = int.from_bytes(body[:4], "big")
        head = _loads(bytes(body[4 : 4 + size]))
        return cls(payload=bytes(body[4 + size :]), **head)


@dataclass(frozen=True)
class CallFailure:
    """How user code failed, as data: its exception itself may not exist, or not pickle, outside its worker.

    `message` is one line, the error's type and its text. `row_index` counts within the call's batch; it is None where
    the Function takes whole batches. `expected` and `got` are set for results of the wrong type or length. `internal`
    is a fault of the worker's own program. `retry_after_seconds` is what the exception says of when to try again.
    """

    kind: FailureKind
    message: str
    error_type: str = ""
    traceback: str = ""
    row_index: int | None = None
    expected: str | None = None
    got: str | None = None
    retry_after_seconds: float | None = None

    @property
    def load_owner(self) -> Owner:
        """Whose fault it is that a Function could not be loaded."""
        missing = self.error_type.rpartition(".")[2] in ("ImportError", "ModuleNotFoundError")
        return "environment" if missing else "function"


@dataclass(frozen=True)
class CallResult:
    """A worker's answer to one call: its values or its failure, the Function's own time, and what it printed."""

    call_id: int
    values: pa.Array | None
    failure: CallFailure | None
    seconds: float
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadReport:
    """What loading took and printed, how it failed if it did, and how many calls the worker computes at a time."""

    seconds: float
    log: tuple[str, ...] = ()
    failure: CallFailure | None = None
    calls_at_once: int = 1

    def to_bytes(self) -> bytes:
        """Return the report as JSON."""
        return _dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> LoadReport:
        """Read what `to_bytes` wrote."""
        fields = _loads(body)
        return cls(fields["seconds"], tuple(fields["log"]), _failure(fields["failure"]), fields["calls_at_once"])


@dataclass(frozen=True)
class WorkerHealth:
    """What a worker says of itself, also while a call runs: `state` is `empty`, `loading`, `idle` or `computing`."""

    state: str
    function: str | None
    version: int | None
    calls_done: int
    state_seconds: float

    def to_bytes(self) -> bytes:
        """Return the health as JSON."""
        return _dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> WorkerHealth:
        """Read what `to_bytes` wrote."""
        return cls(**_loads(body))


@dataclass(frozen=True)
class CallHead:
    """What stands beside a call's batch: its id, and the slot of shared memory for its result, if there is one."""

    call_id: int
    slot: int | None = None


def encode_call(head: CallHead) -> bytes:
    """Return what goes beside a call's batch."""
    if head.slot is None:
        return b'{"call":%d}' % head.call_id
    return b'{"call":%d,"slot":%d}' % (head.call_id, head.slot)


def decode_call(message: bytes) -> CallHead | None:
    """Return what stands beside a call's batch, or None for `STOP_MESSAGE`."""
    fields = _loads(message)
    return CallHead(fields["call"], fields.get("slot")) if "call" in fields else None


def encode_result(call_id: int, seconds: float, log: tuple[str, ...], failure: CallFailure | None) -> bytes:
    """Return what goes beside a result's values, or stands for them where the call failed."""
    message: dict[str, Any] = {"call": call_id, "seconds": seconds}
    if log:
        message["log"] = log
    if failure is not None:
        message["failure"] = asdict(failure)
    return _dumps(message).encode()


def with_stored(message: bytes, stored_bytes: int) -> bytes:
    """Return what `encode_result` gave with the word that so many bytes of values stand in the call's slot."""
    return b'%b,"stored":%d}' % (message[:-1], stored_bytes)


def last_resort(call_id: int, error: BaseException) -> bytes:
    """Return a result that says that the worker could not even say how the call ended."""
    kind = "".join(letter for letter in type(error).__name__ if letter.isascii() and letter.isalnum())
    message = "its answer could not be written; its Function replaced something that the worker needs"
    return b'{"call":%d,"seconds":0.0,"failure":{"kind":"raised","message":"%s: %s","error_type":"%s"}}' % (
        call_id,
        kind.encode(),
        message.encode(),
        kind.encode(),
    )


def decode_result(
    message: bytes, values: pa.Array | None, read_stored: Callable[[int, int], pa.Array] | None = None
) -> CallResult:
    """Read what `encode_result` wrote.

    Parameters
    ----------
    values
        Those that came with it.
    read_stored
        Gives the values of a call, by its id, of which so many bytes stand in shared memory.
    """
    fields = _loads(message)
    if read_stored is not None and "stored" in fields:
        values = read_stored(fields["call"], fields["stored"])
    return CallResult(
        call_id=fields["call"],
        values=values,
        failure=_failure(fields.get("failure")),
        seconds=fields["seconds"],
        log=tuple(fields.get("log", ())),
    )


def _failure(fields: dict[str, Any] | None) -> CallFailure | None:
    return None if fields is None else CallFailure(**fields)
