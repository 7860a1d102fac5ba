"""A worker process that a test starts by hand, without a placement or a pool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from applied import need_for, numbers

from lancegpu_sql.placement.shared_memory import make_shared_memory
from lancegpu_sql.workers import CallResult, CallStream, WorkerClient
from lancegpu_sql.workers.calls import RESULTS_VARIABLE, TOKEN_VARIABLE

END_SECONDS = 10


class StartedWorker:
    """A worker process started by hand, and a client to it; where asked for, they share memory for results."""

    def __init__(self, folder: Path, token: str = "open sesame", *, shares: bool = False) -> None:
        self.socket = folder / "w.sock"
        shared = make_shared_memory() if shares else None
        self.memory, descriptors = (None, ()) if shared is None else (shared[0], shared[1:])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lancegpu_sql.workers", "--socket", str(self.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, TOKEN_VARIABLE: token, RESULTS_VARIABLE: "".join(map(str, descriptors))},
            pass_fds=descriptors,
        )
        for descriptor in descriptors:
            os.close(descriptor)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        self.client = self.connect(token)
        self._streams: list[CallStream] = []

    def connect(self, token: str) -> WorkerClient:
        return WorkerClient(f"grpc+unix://{self.socket}", token, results=self.memory)

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
