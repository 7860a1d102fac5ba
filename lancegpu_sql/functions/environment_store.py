"""Environments of Functions on this machine: each made once, whoever asks, and shared by all jobs of its user."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import lancegpu_sql
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.errors import Cancelled, EnvironmentFailed, StorageError
from lancegpu_sql.functions import environment_uv
from lancegpu_sql.functions.environment import Environment
from lancegpu_sql.functions.environment_uses import LOCK_FILE, hold, take_away
from lancegpu_sql.functions.imports_needed import missing_in

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class ReadyEnvironment:
    """An environment that is there: its interpreter, its folder, and the one from which this package is imported."""

    python: Path
    folder: Path
    package_folder: Path

    def variables(self, path: str) -> dict[str, str]:
        """Return what a process in it has for environment variables; `path` is the PATH that it would have otherwise."""
        return {
            "VIRTUAL_ENV": str(self.folder),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{path}",
            "PYTHONPATH": str(self.package_folder),
        }


def default_environment_folder() -> Path:
    """Return the user's own folder for environments on this machine."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "lancegpu" / "environments"


def environment_of(version: FunctionVersion) -> Environment | None:
    """Return the environment that the workers of a Function version need; None where this program's own will do."""
    if version.environment is None or version.environment.lock is None:
        return None
    return Environment(version.python_version, version.environment.lock, version.environment.imports)


class EnvironmentStore:
    """A folder of environments, each by its digest.

    An environment is made beside its place and renamed into it, under a lock that ends with its holder: who is killed
    meanwhile leaves nothing that would be taken for one.

    Parameters
    ----------
    folder
        Where; the user's own if None.
    build_packages
        Whether packages without a wheel may be built, which runs their code.
    here
        Whether workers run on this machine; otherwise it only resolves what others install.
    """

    def __init__(self, folder: str | Path | None = None, *, build_packages: bool = False, here: bool = True) -> None:
        self._here = here
        self.folder = default_environment_folder() if folder is None else Path(folder).absolute()
        self.build_packages = build_packages

    def lock(self, requirements: Sequence[str], python_version: str) -> str:
        """Resolve requirements; see `environment_uv.lock`."""
        return environment_uv.lock(requirements, python_version, build_packages=self.build_packages, here=self._here)

    def find(self, environment: Environment) -> ReadyEnvironment | None:
        """Return an environment that is there and whole."""
        place = self._place(environment)
        python = place / "bin" / "python"
        # The interpreter is a link to one of the machine's, which may have been replaced since.
        files = (place / LOCK_FILE, place / "pyvenv.cfg")  # without the latter Python looks for packages elsewhere
        if not all(file.is_file() for file in files) or not os.access(python, os.X_OK):
            return None
        return ReadyEnvironment(python, place, self._package_folder())

    def hold(self, environment: Environment) -> tuple[ReadyEnvironment, int] | None:
        """Return an environment that is there and a descriptor; while any process has that open, it is not taken away."""
        ready = self.find(environment)
        descriptor = None if ready is None else hold(ready.folder)
        return None if ready is None or descriptor is None else (ready, descriptor)

    def make(
        self,
        environment: Environment,
        interrupted: Callable[[], bool] = lambda: False,
        begun: Callable[[], None] = lambda: None,
    ) -> ReadyEnvironment:
        """Return an environment, making it where it is missing; others who want the same wait for it.

        Parameters
        ----------
        interrupted
            Asked now and then whether to give up.
        begun
            Called where it is not there yet.

        Raises
        ------
        EnvironmentFailed
            A package cannot be had, there is no such Python, or the packages lack what the Function imports.
        StorageError
            The folder cannot be written to.
        Cancelled
            `interrupted` said so.
        """
        if (found := self._found(environment)) is not None:
            return _with_imports(found, environment)
        begun()
        try:
            make_folder(self.folder)
            with _alone(self.folder / f"{environment.digest}.lock", interrupted) as is_alone:
                if (found := self.find(environment)) is None:
                    if is_alone:
                        self._clear(environment)
                    self._make(environment, interrupted)
                    found = self.find(environment)
        except OSError as exc:
            raise self._unusable(exc) from exc
        if found is None:
            raise EnvironmentFailed(
                f"The environment {self._place(environment)} was taken away while it was made; try again.",
                owner="environment",
            )
        return _with_imports(found, environment)

    def _found(self, environment: Environment) -> ReadyEnvironment | None:
        try:
            if (held := self.hold(environment)) is None:
                return None
            os.close(held[1])  # used now, which keeps it until a worker holds it
            return held[0]
        except OSError as exc:
            raise self._unusable(exc) from exc

    def _clear(self, environment: Environment) -> None:
        """Take away what one who was killed left, and an environment whose interpreter is gone."""
        for left in self.folder.glob(f"{environment.digest}.new-*"):
            take_away(left)
        place = self._place(environment)
        if os.path.lexists(place):
            # Out of its place at once: taking away its files takes a while.
            broken = place.with_name(f"{place.name}.new-{uuid.uuid4().hex[:8]}")
            place.rename(broken)
            take_away(broken)

    def _make(self, environment: Environment, interrupted: Callable[[], bool]) -> None:
        place, began = self._place(environment), monotonic()
        new = self.folder / f"{environment.digest}.new-{uuid.uuid4().hex[:8]}"
        lock_file = new.with_suffix(f"{new.suffix}.txt")
        try:
            lock_file.write_text(environment.lock)
            environment_uv.make_environment(
                new,
                environment_uv.find_python(environment.python_version),
                lock_file,
                build_packages=self.build_packages,
                interrupted=interrupted,
            )
            lock_file.rename(new / LOCK_FILE)
            with suppress(FileExistsError):  # where the folder knows no locks, another may have been first
                _rename_into_place(new, place)
                _log.info("made the environment %s in %.1f s", place, monotonic() - began)
        finally:
            take_away(lock_file)
            take_away(new)

    def _place(self, environment: Environment) -> Path:
        return self.folder / environment.digest

    def _package_folder(self) -> Path:
        """Return a folder from which this package can be imported, and nothing else that stands beside it."""
        package = Path(lancegpu_sql.__file__).resolve().parent
        name = hashlib.blake2b(str(package).encode(), digest_size=8).hexdigest()
        folder = self.folder / "package" / name
        link = folder / package.name
        if not link.is_symlink() or link.readlink() != package:
            make_folder(folder)
            new = folder / f"new-{uuid.uuid4().hex[:8]}"
            new.symlink_to(package)
            new.rename(link)
        return folder

    def _unusable(self, exc: OSError) -> StorageError:
        return StorageError(
            f"The folder of environments {self.folder} cannot be used ({exc.strerror or exc}); set "
            "LANCEGPU_ENVIRONMENT_FOLDER to another one",
            path=str(self.folder),
        )


def _with_imports(ready: ReadyEnvironment, environment: Environment) -> ReadyEnvironment:
    """Return an environment that has what the Function imports.

    Raises
    ------
    EnvironmentFailed
        It does not.
    """
    missing = missing_in(ready.folder, environment.imports)
    if missing:
        raise EnvironmentFailed(
            f"It imports {', '.join(missing)}, which none of its packages has ({', '.join(sorted(environment.packages))}): name "
            "in pip the package that does.",
            owner="environment",
        )
    return ready


@contextmanager
def _alone(path: Path, interrupted: Callable[[], bool]) -> Iterator[bool]:
    """Wait until nobody else holds a lock, then hold it; gives False where the folder's file system knows none."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_alone = True
            except BlockingIOError:
                if interrupted():
                    raise Cancelled("cancelled while another process made the Function's environment") from None
                sleep(_LOOK_SECONDS)
                continue
            except OSError as exc:
                if exc.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                is_alone = False
            break
        yield is_alone
    finally:
        os.close(descriptor)


def _rename_into_place(new: Path, place: Path) -> None:
    try:
        new.rename(place)
    except OSError as exc:
        if exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(exc.errno, exc.strerror, str(place)) from exc
        raise
