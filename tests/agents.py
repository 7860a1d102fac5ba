"""Agents, in processes of their own and in this one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from refresh_kit import PATIENCE_SECONDS

from lancegpu_sql.database import Database

Seen = TypeVar("Seen")


class AgentProcess:
    """`lancegpu agent` on `folder/db`, or the database at `uri`, sharing the devices of `folder/run`."""

    def __init__(self, folder: Path, *options: str, uri: str | None = None, **settings: object) -> None:
        environment = {f"LANCEGPU_{name.upper()}": str(value) for name, value in settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lancegpu_sql.cli", "--db", uri or str(folder / "db"), "agent", *options],
            env=os.environ | {"LANCEGPU_RUNTIME_FOLDER": str(folder / "run")} | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        fcntl.fcntl(self.process.stderr, fcntl.F_SETPIPE_SZ, 1 << 20)  # its log, which is read at its end
        self.told = self.process.stderr.readline()
        assert self.told.startswith("Serving "), self.told + self.process.stderr.read()

    def terminate(self) -> str:
        """Send SIGTERM, wait for its end, return what it said meanwhile."""
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE_SECONDS)[1]

    def kill(self) -> None:
        """Kill it without a word."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def agent(db: Database, **options: Any) -> Iterator[None]:
    """An agent in a thread of this process."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: db.run_agent(stop=stop, **options))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)


def eventually(look: Callable[[], Seen], wanted: Callable[[Seen], bool] = bool) -> Seen:
    """Look until it is as wanted; for what other processes do and nobody tells."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, f"it stayed {seen!r}"
        time.sleep(0.01)
    return seen
