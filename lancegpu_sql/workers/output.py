"""What user code prints, also from C: caught at the file descriptors and handed over as lines.

A file in memory takes stdout and stderr, not a pipe: a pipe that is full would stop C code which holds the interpreter
lock, and so the thread that could empty it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading

MAX_LINES = 1000
MAX_BYTES = 64 * 1024
_FREE_AFTER_BYTES = 1024 * 1024
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # linux/falloc.h

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class OutputCapture:
    """Owns file descriptors 1 and 2 from its making on."""

    def __init__(self) -> None:
        self._file = os.memfd_create("lancegpu-output")
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        self._read_bytes = 0
        self._freed_bytes = 0
        self._lock = threading.Lock()

    def take(self) -> tuple[str, ...]:
        """Return the lines printed since the last time.

        Of a flood the first and last lines are kept, with one line between them that says how much is left out.
        """
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BaseException):  # user code may have closed or replaced it
                getattr(sys, name).flush()
        _libc.fflush(None)
        with self._lock:
            try:
                return self._take_lines()
            except OSError as exc:  # user code may have closed every descriptor there is
                return (f"[what was printed is lost: {exc.strerror}]",)

    def _take_lines(self) -> tuple[str, ...]:
        size = os.fstat(self._file).st_size
        start, self._read_bytes = self._read_bytes, size
        if size == start:
            return ()
        lines = self._lines(start, size)
        self._free()
        return lines

    def _lines(self, start: int, end: int) -> tuple[str, ...]:
        if end - start <= MAX_BYTES:
            lines = _split(os.pread(self._file, end - start, start))
            if len(lines) <= MAX_LINES:
                return tuple(lines)
            half = MAX_LINES // 2
            return (*lines[:half], f"[{len(lines) - 2 * half} lines left out]", *lines[-half:])
        half = MAX_BYTES // 2
        head, tail = os.pread(self._file, half, start), os.pread(self._file, half, end - half)
        # Whole lines: of a secret on one that is cut, a piece would be left that nobody knows for one.
        first = _split(head[: head.rfind(b"\n") + 1] or head)[: MAX_LINES // 2]
        last = _split(tail[tail.find(b"\n") + 1 :] or tail)[-MAX_LINES // 2 :]
        return (*first, f"[about {end - start - MAX_BYTES} bytes left out]", *last)

    def _free(self) -> None:
        """Give back the memory of what has been read; writers go on at the file's end."""
        length = self._read_bytes - self._freed_bytes
        if length >= _FREE_AFTER_BYTES and not _libc.fallocate(
            self._file, _PUNCH_HOLE_KEEP_SIZE, self._freed_bytes, length
        ):
            self._freed_bytes = self._read_bytes


def _split(text: bytes) -> list[str]:
    # A progress bar redraws its line with carriage returns: what stood last is what counts.
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.decode(errors="replace").split("\n"))
    return [line for line in lines if line]
