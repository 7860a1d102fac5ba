"""How placements of one host wake each other: a datagram that says "look at the ledger", and nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SOCKET_NAME = "mailbox"
# The kernel's limit for the path of a Unix socket (sun_path), without the closing null byte.
_LONGEST_SOCKET_PATH_BYTES = 107
# "/", up to ten digits, ".sock".
_SOCKET_NAME_BYTES = 16


class Mailbox:
    """One placement's private folder, with the socket on which it hears of changes, and room for its workers' sockets.

    A socket that nobody has open refuses to be written to, so a folder tells by itself whether its placement lives,
    from any container that shares the folder.
    """

    def __init__(self, runtime_folder: Path) -> None:
        self.name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self.folder = runtime_folder / self.name
        self.folder.mkdir(mode=0o700)
        self._runtime_folder = runtime_folder
        self._long_paths_folder: Path | None = None
        self._sockets_made = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        with _Reachable(runtime_folder) as root:
            self._socket.bind(f"{root}/{self.name}/{_SOCKET_NAME}")
            Path(f"{root}/{self.name}/{_SOCKET_NAME}").chmod(0o600)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is news."""
        return self._socket.fileno()

    def empty(self) -> None:
        """Take what has come."""
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(16)

    def new_socket_path(self) -> Path:
        """Return a path for a worker's socket, short enough for the kernel."""
        self._sockets_made += 1
        self.folder.mkdir(mode=0o700, exist_ok=True)  # whoever cleared the runtime folder took it away too
        path = self.folder / f"{self._sockets_made}.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH_BYTES:
            return path
        if self._long_paths_folder is None:
            self._long_paths_folder = _make_short_folder()
        return self._long_paths_folder / path.name

    def close(self) -> None:
        """Stop listening and remove the folder."""
        self._socket.close()
        for folder in (self.folder, self._long_paths_folder):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _make_short_folder() -> Path:
    """Make a private folder whose sockets' paths are short enough: TMPDIR may be no shorter than what was too long."""
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/dev/shm")):  # noqa: S108 - private, and of a random name
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="lancegpu-", dir=place))
            if len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _LONGEST_SOCKET_PATH_BYTES:
                return folder
            folder.rmdir()
    raise OSError(
        errno.ENAMETOOLONG,
        "no folder with a short path is to be had for the sockets of workers; set LANCEGPU_RUNTIME_FOLDER to one",
    )


def wake(runtime_folder: Path, names: Iterable[str]) -> None:
    """Tell the mailboxes of these names that the ledger has changed; those that are gone need not hear it."""
    with _Reachable(runtime_folder) as root, _sender() as sender:
        for name in names:
            # A full mailbox (EAGAIN) has news already.
            with suppress(OSError):
                sender.sendto(b"!", f"{root}/{name}/{_SOCKET_NAME}")


def answers(runtime_folder: Path, name: str) -> bool:
    """Tell whether the placement of a mailbox lives."""
    with _Reachable(runtime_folder) as root, _sender() as sender:
        return sender.connect_ex(f"{root}/{name}/{_SOCKET_NAME}") == 0


def sweep(runtime_folder: Path) -> None:
    """Remove the folders of placements that were killed."""
    with _Reachable(runtime_folder) as root, _sender() as sender:
        for folder in runtime_folder.iterdir():
            # Only a refusal proves that it was once bound and is dead; one without a socket may just be coming up.
            if sender.connect_ex(f"{root}/{folder.name}/{_SOCKET_NAME}") == errno.ECONNREFUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _sender() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class _Reachable:
    """A short path to a folder, through an open descriptor: a socket's path may have no more than 107 bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        self._descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
