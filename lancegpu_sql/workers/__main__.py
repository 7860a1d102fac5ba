"""One worker process, empty until its owner sends a Function; on this machine or on another.

`python -m lancegpu_sql.workers --socket PATH` serves on a Unix socket, `… --listen HOST:PORT` over TLS.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from lancegpu_sql.workers.calls import (
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ORPHAN_VARIABLE,
    RESULTS_VARIABLE,
    TOKEN_VARIABLE,
)
from lancegpu_sql.workers.ending import run_to_end
from lancegpu_sql.workers.entering import enter_environment
from lancegpu_sql.workers.owner import Hearing, end_with_owner

_USAGE = "usage: python -m lancegpu_sql.workers (--socket PATH | --listen HOST:PORT)\n"


def main(arguments: list[str]) -> int:
    """Serve until told to end; print one line, ``ready``, once requests are answered."""
    # In a container this is process 1, which ignores what it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if len(arguments) != 2 or arguments[0] not in ("--socket", "--listen"):
        sys.stderr.write(_USAGE)
        return 2
    enter_environment(arguments)
    # Not left in the environment: user code and what it starts have no business with it.
    token = os.environ.pop(TOKEN_VARIABLE, "")
    certificate, key = os.environ.pop(CERTIFICATE_VARIABLE, ""), os.environ.pop(KEY_VARIABLE, "")
    orphan_seconds = os.environ.pop(ORPHAN_VARIABLE, "")
    shared = os.environ.pop(RESULTS_VARIABLE, "")
    if not token:
        sys.stderr.write(f"{TOKEN_VARIABLE} is not set: a worker without a token would answer anyone\n")
        return 2
    on_network = arguments[0] == "--listen"
    if on_network and not (certificate and key and orphan_seconds):
        needed = f"{CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {ORPHAN_VARIABLE}"
        sys.stderr.write(f"a worker that listens on a network needs {needed}\n")
        return 2
    owner_stdout, owner_stderr = os.dup(1), os.dup(2)
    # A crash in native code still tells where it was, to whoever started the worker.
    faulthandler.enable(file=owner_stderr)

    from lancegpu_sql.functions.secret_sources import Masking
    from lancegpu_sql.workers.desk import Desk
    from lancegpu_sql.workers.output import OutputCapture
    from lancegpu_sql.workers.server import Tls, WorkerService
    from lancegpu_sql.workers.shared_results import SharedResults

    folder = None if on_network else Path(arguments[1]).parent  # of its socket: private, and cleared away by its owner
    masked = Masking()
    desk = Desk(
        lambda load: loading.load_function(load, folder, masked),
        lambda error: loading.failure_of(error, masked),
        OutputCapture(),
        masked,
    )

    def end(*_: object) -> None:
        os.write(owner_stderr, b"asked to end: the call that runs is finished, and no other begun\n")
        desk.retire()

    signal.signal(signal.SIGTERM, end)
    if on_network:
        heard: Callable[[], None] = Hearing(float(orphan_seconds), desk.retire).heard
        location = f"grpc+tls://{_bracketed(arguments[1])}"
        service = WorkerService(location, token, desk, tls=Tls(certificate, key), heard=heard)
    else:
        end_with_owner(desk.retire)
        results = SharedResults(int(shared)) if shared else None
        service = WorkerService(f"grpc+unix://{arguments[1]}", token, desk, results=results)
    os.write(owner_stdout, b"ready\n")
    # While the owner finds its way here: what it asks for lies on the desk until somebody sits there.
    from lancegpu_sql.workers import loading

    desk.run()
    del service
    return 0


def _bracketed(address: str) -> str:
    """Return HOST:PORT with an IPv6 host in brackets, as a URI has it: a pod's address comes without."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else address


if __name__ == "__main__":
    run_to_end(lambda: main(sys.argv[1:]))
