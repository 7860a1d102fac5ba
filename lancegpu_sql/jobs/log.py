"""A job's log: what user code printed, a file a job, readable by its owner alone."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from lancegpu_sql.catalog.private import make_folder

FOLDER = "logs"


def log_path(folder: Path, job_id: str) -> Path:
    """Return where a job's log stands."""
    return folder / FOLDER / f"{job_id}.log"


def read_log(folder: Path, job_id: str) -> str:
    """Return a job's log, empty where nothing was printed."""
    try:
        return log_path(folder, job_id).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


class JobLog:
    """Appends lines; the file is made by the first one. From `limit_bytes` on, lines are left out, which it says.

    A disk that refuses the log must not fail the work: lines are then left out, and `append` says so by its result.
    Lines that come after `close`, from a thread that outlived the work, are left out too.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: int | None = None
        self._size_bytes = 0
        self._over = False
        self._lock = threading.Lock()

    def append(self, line: str) -> OSError | None:
        """Add one line, whole, whichever threads and processes write beside this one; return the disk's first no."""
        data = (line.rstrip("\n") + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if self._over:
                return None
            try:
                self._write(data)
            except OSError as error:
                self._over = True
                return error
        return None

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._over = True
            if self._file is not None:
                with suppress(OSError):  # a network disk says only here that it was full
                    os.close(self._file)
                self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            make_folder(self._path.parent)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._size_bytes = os.fstat(self._file).st_size
        if self._size_bytes >= self._limit_bytes:
            return
        self._size_bytes += len(data)
        if self._size_bytes >= self._limit_bytes:
            data = f"(the log is full at {self._limit_bytes} bytes: later lines are left out)\n".encode()
        os.write(self._file, data)
