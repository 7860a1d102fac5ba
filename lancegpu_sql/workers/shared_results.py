"""Results of a worker on its owner's machine, through memory that both of them see.

A socket has a large result copied four times, and its pages taken from the system and given back; here it is copied into a
slot, and from there into memory of the owner's own. The owner names a free slot with each call, and so decides what is
written where. A worker that has no use for the slot answers through the socket.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from contextlib import suppress

import pyarrow as pa

SLOT_BYTES = 16 * 1024 * 1024
LEAST_BYTES = 64 * 1024
"""Smaller results cost as little on the way of their message."""

# Bound here: what user code puts in their place must not reach the answers.
_Writer, _new_stream, _py_buffer = pa.FixedSizeBufferWriter, pa.ipc.new_stream, pa.py_buffer


class ResultSlots:
    """The owner's side: which slots are free, and what was written to one. Safe for use by several threads."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._mapped = memory
        self._memory = memoryview(memory)
        self._free = deque(range(len(memory) // SLOT_BYTES))

    def take(self) -> int | None:
        """Return a free slot, of which nobody else is told until it is given back; None where there is none."""
        try:
            return self._free.pop()  # the one given back last: it has its pages
        except IndexError:
            return None

    def give_back(self, slot: int) -> None:
        """Say that nobody writes to a slot, and nobody reads it."""
        self._free.append(slot)

    def close(self) -> None:
        """Give the memory back to the system; what is being read just now keeps it until it is read."""
        with suppress(BufferError):
            self._memory.release()
            self._mapped.close()

    def read(self, slot: int, nbytes: int) -> pa.Array:
        """Return the values in a slot, in memory of this process.

        Raises
        ------
        ArrowInvalid
            There are no values.
        """
        if not 0 < nbytes <= SLOT_BYTES:
            raise pa.ArrowInvalid(f"a result of {nbytes} bytes in a slot of {SLOT_BYTES}")
        # Copied before it is looked at: user code may still write to the slot.
        try:
            own = pa.allocate_buffer(nbytes)
            pa.FixedSizeBufferWriter(own).write(_part(self._memory, slot)[:nbytes])
            return pa.ipc.open_stream(own).read_next_batch().column(0)
        except Exception as exc:
            # Bytes that are no result fail in many ways: an end without a batch is a StopIteration.
            raise pa.ArrowInvalid(f"no values in a slot: {type(exc).__name__}: {exc}") from exc


class SharedResults:
    """The worker's side.

    Parameters
    ----------
    descriptor
        Of the memory; closed here.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory: memoryview | None = None
        with suppress(OSError):  # the process may have no more addresses: results take the other way
            self._memory = memoryview(mmap.mmap(descriptor, 0))
        os.close(descriptor)

    def store(self, slot: int, batch: pa.RecordBatch) -> int | None:
        """Write a result of one column to a slot; return its bytes, or None where it is small or does not fit."""
        try:
            if self._memory is None or not LEAST_BYTES <= batch.nbytes <= SLOT_BYTES:
                return None
            sink = _Writer(_py_buffer(_part(self._memory, slot)))
            with _new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            return int(sink.tell())
        except Exception:
            # With what Arrow writes around it, it is larger than the slot; or user code replaced what Arrow writes it with.
            # Raised, it would end the thread that writes replies, and they would be waited for for ever.
            return None


def _part(memory: memoryview, slot: int) -> memoryview:
    return memory[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES]
