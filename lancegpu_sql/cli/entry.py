"""From a command line to an exit status: errors of ours become one message, not a traceback."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

from lancegpu_sql.errors import LanceGpuError, StillWaiting

EXIT_FAILED = 1
EXIT_STILL_WAITING = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""
EXIT_INTERRUPTED = 130
"""What shells give for a program that SIGINT ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        As on a command line, without the program's name; those of this process if left out.

    Returns
    -------
    int
        0 done, 1 failed, 2 wrong usage, 75 still waiting at ``--timeout``, 130 interrupted.
    """
    if arguments is None:
        # The process ends with the command. To take all apart that was loaded would take longer than most commands do.
        atexit.register(gc.freeze)
    try:
        from lancegpu_sql.cli.app import app

        app(arguments, prog_name="lancegpu")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_FAILED if end.code else 0
    except StillWaiting as problem:
        return _told(problem, EXIT_STILL_WAITING)
    except LanceGpuError as problem:
        return _told(problem, EXIT_FAILED)
    except KeyboardInterrupt:  # before the command could begin, or after its end
        return EXIT_INTERRUPTED
    return 0


def _told(problem: LanceGpuError, status: int) -> int:
    print(f"lancegpu: {problem.message}", file=sys.stderr)
    return status
