"""A worker process that a test starts by hand, without a placement or a pool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from applied import need_for, numbers

from lancegpu_sql.workers import CallResult, CallStream, WorkerClient
from lancegpu_sql.workers.calls import TOKEN_VARIABLE

END_SECONDS = 10


class StartedWorker:
    """A worker process started by hand, and a client to it."""

    def __init__(self, folder: Path, token: str = "open sesame") -> None:
        self.socket = folder / "w.sock"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lancegpu_sql.workers", "--socket", str(self.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, TOKEN_VARIABLE: token},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        self.client = self.connect(token)
        self._streams: list[CallStream] = []

    def connect(self, token: str) -> WorkerClient:
        return WorkerClient(f"grpc+unix://{self.socket}", token)

    def loaded_with(self, target: Callable[..., Any], **options: Any) -> CallStream:
        """Load a Function and open a stream of calls."""
        report = self.client.load(need_for(target, **options).load)
        assert report.failure is None
        self._streams.append(self.client.open_stream())
        return self._streams[-1]

    def result_of(self, target: Callable[..., Any], values: list[int], **options: Any) -> CallResult:
        """Load a Function and call it once."""
        stream = self.loaded_with(target, **options)
        stream.send(1, numbers(values))
        result = stream.receive()
        assert result is not None
        return result

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self.client.close()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
