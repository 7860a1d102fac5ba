"""What a Function's workers have installed where it asks for packages of its own: requirements, their lock, its digest."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType

from lancegpu_sql.errors import InvalidFunction

RUNTIME_REQUIREMENTS = ("pyarrow>=24", "cloudpickle>=3.1")
"""What a worker itself imports, as this package's own metadata has it: resolved together with a Function's packages."""

PLACE_VARIABLE = "LANCEGPU_WORKER_ENVIRONMENT"
"""Names the file that says where a pod's environment is: written by the container that makes it, read by the worker."""

_OLDEST_MINOR = 11  # of this package
_PYTHON_VERSION = re.compile(r"3\.(\d{1,2})", re.ASCII)
# Goes into every digest: environments made in another way are others.
_FORM = "lancegpu environment 1"
_LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*?)(?:\[[^\]]*\])?\s*(?:==|@)\s*([^\s\\;]+)", re.MULTILINE)
# A wheel by its place alone.
_WHEEL = re.compile(r"^(?:file:)?/\S*/([^/\s-]+)-([^/\s-]+)-[^/\s]+\.whl", re.MULTILINE)
_PASSWORD = re.compile(r"://[^/@\s]*@")


@dataclass(frozen=True)
class Environment:
    """Packages, each of one version and known by its content, for one minor version of Python.

    Parameters
    ----------
    python_version
        Such as ``3.11``.
    lock
        What is installed, as pip reads it: a version and the hashes of each package.
    imports
        Modules that must be among them.
    """

    python_version: str
    lock: str
    imports: tuple[str, ...] = field(default=(), compare=False)

    @property
    def digest(self) -> str:
        """Names it among all environments of machines of this kind."""
        # Workers import this module for its checks, and have no use for what loads OpenSSL.
        import hashlib

        told = json.dumps([_FORM, self.python_version, self.lock, sysconfig.get_platform()])
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()

    @property
    def packages(self) -> dict[str, str]:
        """Its packages by name, with their versions."""
        return packages_of(self.lock)


def packages_of(lock: str) -> dict[str, str]:
    """Return the packages of a lock by name, with their versions."""
    return {canonical(name): version for name, version in (*_LOCKED.findall(lock), *_WHEEL.findall(lock))}


def canonical(name: str) -> str:
    """Return a package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def own_python_version() -> str:
    """Return this Python's minor version, such as ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def checked_pip(given: object) -> tuple[str, ...]:
    """Return the requirements of a Function, as they were written.

    Raises
    ------
    InvalidFunction
        One is no text, or holds what is an option or a file to installers.
    """
    requirements = (given,) if isinstance(given, str) else given
    if not isinstance(requirements, Iterable) or isinstance(requirements, (bytes, dict)):
        raise InvalidFunction(f"pip is a list of requirements, such as ('magika==1.*',), not {given!r}.")
    return tuple(_checked_requirement(one) for one in requirements)


def checked_python_version(given: object) -> str | None:
    """Return the minor version of Python that a Function asks for.

    Raises
    ------
    InvalidFunction
        It is no minor version, or one on which workers do not run.
    """
    if given is None:
        return None
    found = _PYTHON_VERSION.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise InvalidFunction(f"python_version is a minor version in quotes, such as '3.12', not {given!r}.")
    if int(found[1]) < _OLDEST_MINOR:
        raise InvalidFunction(f"python_version={given!r}: workers run on Python 3.{_OLDEST_MINOR} and newer.")
    return str(given)


def checked_code(given: object) -> tuple[str, ...]:
    """Return the names of modules, each given by its name or itself.

    Raises
    ------
    InvalidFunction
        One is no name of a module that can be imported from a folder.
    """
    named = (given,) if isinstance(given, (str, ModuleType)) else given
    if not isinstance(named, Iterable) or isinstance(named, (bytes, dict)):
        raise InvalidFunction(f"code is a list of modules, such as ('mypackage',), not {given!r}.")
    return tuple(dict.fromkeys(_checked_name(one) for one in named))


def _checked_requirement(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidFunction(f"pip: {given!r} is no requirement; write one as 'magika==1.*'.")
    requirement = given.strip()
    if (
        not requirement.isprintable()
        or requirement.startswith(("-", "#"))
        or any(part in requirement for part in ("\\", "${", " #", " --"))
    ):
        raise InvalidFunction(
            f"pip: {given!r} is no requirement: each is a package, with its versions, such as 'magika==1.*'; which index "
            "it comes from is said by uv's own settings."
        )
    if _PASSWORD.search(requirement):
        raise InvalidFunction(
            "pip: a requirement's URL holds a user or a password, which the catalog would keep: leave it out, and put it "
            "where uv finds it (~/.netrc, or UV_INDEX_…)."
        )
    if requirement.startswith((".", "~")):
        raise InvalidFunction(f"pip: {given!r} depends on the present folder: write the whole path.")
    return requirement


def _checked_name(given: object) -> str:
    name = given.__name__ if isinstance(given, ModuleType) else given
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise InvalidFunction(f"code: {given!r} is no module; write its name, such as 'mypackage'.")
    top = name.partition(".")[0]
    if top != name:
        raise InvalidFunction(f"code: {name} is part of {top}, which is needed to import it: write {top!r}.")
    if name in sys.stdlib_module_names or name == "lancegpu_sql":
        raise InvalidFunction(f"code: every worker has {name}: leave it out.")
    return name
