"""A program on a terminal of its own: what a user types, and what he sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from refresh_kit import PATIENCE_SECONDS

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")
# The terminal becomes the program's own, so that Ctrl-C is a signal to it.
_PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from lancegpu_sql.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Terminal:
    """`lancegpu` on a terminal. A context manager: it is killed if it is still there at the end."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        known = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": str(columns)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | known | environment,
            start_new_session=True,
        )
        os.close(slave)
        self._unseen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._master, text.encode())

    def until(self, wanted: str) -> str:
        """Wait until a pattern is seen; what was seen since the last one, up to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := re.search(wanted, self._unseen)) is None:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{wanted!r} did not come after:\n{self._unseen}")
        seen, self._unseen = self._unseen[: found.end()], self._unseen[found.end() :]
        return seen

    def ended(self) -> int:
        """Wait for the end of the program; its exit status."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self, timeout_seconds: float) -> bool:
        """Read what there is; False at the end, or when the time is over."""
        if not select.select([self._master], [], [], max(timeout_seconds, 0.0))[0]:
            return False
        try:
            read = os.read(self._master, 65_536)
        except OSError:  # nobody has the other end any more
            return False
        self._unseen += _ESCAPES.sub("", read.decode(errors="replace"))
        return bool(read)
