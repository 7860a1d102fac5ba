"""`python -m lancegpu_sql.workers --socket PATH`: one worker process, empty until its owner sends a Function."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

from lancegpu_sql.workers.calls import TOKEN_VARIABLE
from lancegpu_sql.workers.owner import end_with_owner


def main(arguments: list[str]) -> int:
    """Serve on a Unix socket until told to end; print one line, ``ready``, once requests are answered."""
    if len(arguments) != 2 or arguments[0] != "--socket":
        sys.stderr.write("usage: python -m lancegpu_sql.workers --socket PATH\n")
        return 2
    # Not left in the environment: user code and what it starts have no business with it.
    token = os.environ.pop(TOKEN_VARIABLE, "")
    if not token:
        sys.stderr.write(f"{TOKEN_VARIABLE} is not set: a worker without a token would answer anyone\n")
        return 2
    owner_stdout, owner_stderr = os.dup(1), os.dup(2)
    # A crash in native code still tells where it was, to whoever started the worker.
    faulthandler.enable(file=owner_stderr)

    from lancegpu_sql.workers.desk import Desk
    from lancegpu_sql.workers.loading import failure_of, load_function
    from lancegpu_sql.workers.output import OutputCapture
    from lancegpu_sql.workers.server import WorkerService

    desk = Desk(load_function, failure_of, OutputCapture())
    end_with_owner(desk.retire)
    signal.signal(signal.SIGTERM, lambda *_: desk.retire())
    service = WorkerService(f"grpc+unix://{arguments[1]}", token, desk)
    os.write(owner_stdout, b"ready\n")
    desk.run()
    del service
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # The Function is closed and every reply written. Waiting for open streams, or for threads that user code left
    # behind, could take for ever.
    os._exit(code)
