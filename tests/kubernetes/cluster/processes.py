"""Processes that live no longer than who started them, and are ended by their id."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# kube-apiserver takes minutes on SIGTERM while anyone watches.
GRACE_SECONDS = 3.0


def start(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; it is killed when the thread that started it ends; it inherits `keep`."""
    # The kernel does it, so that a killed test run leaves nothing behind.
    setpriv = shutil.which("setpriv")
    bound = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    with log.open("ab") as output:
        return subprocess.Popen(
            [*bound, *map(str, command)],
            stdin=stdin, stdout=output, stderr=subprocess.STDOUT,
            env=env, cwd=folder, pass_fds=keep, start_new_session=True,
        )  # fmt: skip


def end(processes: Iterable[subprocess.Popen[bytes]], grace_seconds: float = GRACE_SECONDS) -> None:
    """Ask them all to end, and kill what is left after the grace."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + grace_seconds
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
