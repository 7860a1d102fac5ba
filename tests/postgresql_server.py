"""A PostgreSQL server of the tests' own: Debian's, on a Unix socket in a private folder, ended with the run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from skips import Skip

INSTALL_SECONDS = 300
START_SECONDS = 60
DEBIANS = Path("/usr/lib/postgresql")
CLUSTERS = Path("/etc/postgresql-common/createcluster.conf")

# Whoever may enter the folder of the socket may be anyone, but for one role, which has to say its password; over a network
# all have to.
RULES = "local all guarded scram-sha-256\nlocal all all trust\nhost all all all scram-sha-256\n"


class PostgresqlServer:
    """A server; `folder` holds its files and its socket, `programs` are Debian's, `address` is where it also listens, if anywhere."""

    def __init__(self, folder: Path, programs: Path, user: str | None, address: str = "") -> None:
        self.folder, self.programs, self.address = folder, programs, address
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, user: str = "postgres", database: str = "postgres") -> str:
        """The URL of a database of it."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def run(self, *statements: str) -> str:
        """Run statements, each by itself, and return what they print."""
        at = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", "postgres", "postgres"]
        words = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run([self.programs / "psql", *at, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def make(self) -> None:
        """Make its files."""
        how = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [self.programs / "initdb", "-D", self.folder / "data", *how],
            user=self._user, cwd="/", check=True, capture_output=True, timeout=START_SECONDS,
        )  # fmt: skip
        (self.folder / "data" / "pg_hba.conf").write_text(RULES)

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        settings = (
            f"listen_addresses={self.address}",
            f"unix_socket_directories={self.folder}",
            "unix_socket_permissions=0700",
            "fsync=off",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        command = [self.programs / "postgres", "-D", self.folder / "data", *options]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, user=self._user, cwd="/", stdout=log, stderr=log)
        ready = [self.programs / "pg_isready", "-q", "-h", self.folder]
        while subprocess.run(ready, check=False).returncode:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, without waiting for its clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None


def found() -> Path | None:
    """Where the server's programs are."""
    on_path = shutil.which("initdb")
    folders = sorted(DEBIANS.glob("*/bin"), key=lambda folder: int(folder.parent.name.split(".")[0]))
    return Path(on_path).resolve().parent if on_path else next(iter(reversed(folders)), None)


def programs(say: Callable[[str], None]) -> Path:
    """Return where the server's programs are; install them where that can be done, or skip the test."""
    there = found()
    if there is not None:
        return there
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip(f"{Skip.NEEDS_ROOT}: PostgreSQL's server is not installed, and only root can do that (apt-get)")
    say("PostgreSQL: installing Debian's server")
    if not CLUSTERS.exists():  # or the package makes and starts a server of its own
        CLUSTERS.parent.mkdir(parents=True, exist_ok=True)
        CLUSTERS.write_text("create_main_cluster = false\n")
    install = "apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold postgresql"
    done = subprocess.run(
        ["sh", "-c", f"{install} || {{ apt-get update -qq && {install}; }}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, timeout=INSTALL_SECONDS,
    )  # fmt: skip
    there = found()
    if there is None:
        pytest.skip(f"{Skip.NEEDS_NETWORK}: PostgreSQL's server could not be installed: {done.stderr.strip()[-200:]}")
    return there


@contextmanager
def running(programs: Path, address: str = "") -> Iterator[PostgresqlServer]:
    """Start a server that is gone afterwards, its files too; root starts it as another user, as it asks for."""
    user = None if os.geteuid() else "postgres"
    folder = Path(tempfile.mkdtemp(prefix="lg-pg-"))  # short, as the name of a socket must be
    if user is not None:
        shutil.chown(folder, user)
    server = PostgresqlServer(folder, programs, user, address)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
