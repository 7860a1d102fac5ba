"""Where the secrets of a Function's workers come from: names of places in the catalog, values in workers only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from lancegpu_sql.errors import EnvironmentFailed, InvalidFunction, InvalidInput

KUBERNETES = "kubernetes:"
"""With this begins the source of a secret that a cluster keeps: its kubelet hands it to the worker."""

LEAST_CHARACTERS = 4
"""Of a secret: a shorter one could not be masked without making texts unreadable."""

_MOST_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[-._a-zA-Z0-9]{1,253}")
# No process can do without, whoever says that it has a secret from there.
_EVERYBODYS = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "PWD", "LD_LIBRARY_PATH"})

_EXAMPLE = "'env:HF_TOKEN', 'file:/run/secrets/hf', or on Kubernetes 'kubernetes:SECRET/KEY'"


def checked_secrets(given: object) -> dict[str, str]:
    """Return the sources of secrets, by the variable that a worker finds each in, sorted.

    Raises
    ------
    InvalidFunction
        A name is no variable's, or a source names no place. What was given is not in the message: it may be a secret.
    """
    if not isinstance(given, Mapping):
        raise InvalidFunction(f"secrets is a dict of variable names to where they come from, such as {_EXAMPLE}.")
    for name, source in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidFunction("secrets: a name is that of an environment variable: letters, digits and _.")
        if not isinstance(source, str) or not _is_place(source):
            raise InvalidFunction(
                f"secrets: {name} is to say where its value comes from, and never the value itself: {_EXAMPLE}."
            )
    return dict(sorted(given.items()))


def check_allowed(function: str, sources: Mapping[str, str], allowed: str | None, *, on_cluster: bool) -> None:
    """Refuse sources that an operator does not allow.

    Parameters
    ----------
    allowed
        Patterns of sources; None: all, where workers run as the user who asks, on this machine; none on a cluster.

    Raises
    ------
    InvalidInput
    """
    if allowed is None and not on_cluster:
        return
    patterns = [one.strip() for one in (allowed or "").split(",") if one.strip()]
    for name, source in sources.items():
        if not any(fnmatchcase(source, pattern) for pattern in patterns):
            raise InvalidInput(
                f"Function {function} is to find its secret {name} at {source}, which is not allowed here; allowed: "
                f"{', '.join(patterns) or 'none'}. An operator says what is, with the setting secret_sources",
                function=function,
            )


def read_secrets(sources: Mapping[str, str]) -> dict[str, str | None]:
    """Read the secrets that this process can; None stands for those that the worker has already.

    Raises
    ------
    EnvironmentFailed
        One is not where it should be.
    """
    return {name: _read(name, source) for name, source in sources.items()}


def own_variables(sources: Mapping[str, str]) -> set[str]:
    """Return the variables of this process that a worker does not inherit: it is told of them in another way."""
    return {*sources, *(source.removeprefix("env:") for source in sources.values() if source.startswith("env:"))}


def withheld_variables(sources: Iterable[str]) -> frozenset[str]:
    """Return the variables of this process that no worker inherits: those that are named as where a secret comes from."""
    named = (source.removeprefix("env:") for source in sources if source.startswith("env:"))
    return frozenset(name for name in named if name not in _EVERYBODYS)


def kubernetes_sources(sources: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the secrets that a cluster keeps: by variable, the Secret and the key."""
    found = {}
    for name, source in sources.items():
        if source.startswith(KUBERNETES):
            secret, _, key = source.removeprefix(KUBERNETES).partition("/")
            found[name] = (secret, key)
    return found


def refuse_kubernetes_sources(function: str, sources: Mapping[str, str]) -> None:
    """Refuse secrets that only a cluster has, where workers run on this machine.

    Raises
    ------
    InvalidInput
    """
    for name in kubernetes_sources(sources):
        raise InvalidInput(
            f"Function {function} is to find its secret {name} at {sources[name]}, but workers run on this machine, which has "
            f"no Secrets of Kubernetes: give another source with alter_function({function!r}, secrets=...)",
            function=function,
        )


class Masking:
    """Makes secrets unreadable in texts."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Mask these as well, and each of their longer lines: output is taken line by line."""
        forms = set(self._values)
        for value in values:
            for part in (value, *value.splitlines()):
                forms.update(_forms(part))
        self._values = tuple(sorted((one for one in forms if len(one) >= LEAST_CHARACTERS), key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """Return a text with the secrets in it replaced."""
        for value in self._values:
            text = text.replace(value, "***")
        return text


def _forms(value: str) -> set[str]:
    """Return how a value stands in texts: as it is, as Python and JSON show it, and as a part of a URL or a form."""
    # Only workers that have secrets need them.
    import json
    from urllib.parse import quote, quote_plus

    # A variable need not be UTF-8.
    content = value.encode(errors="surrogateescape")
    shown = repr(value)[1:-1]
    # Beside a double quote, Python writes single ones otherwise than alone.
    forms = {value, shown, shown.replace("'", "\\'"), repr(content)[2:-1], value.encode("unicode_escape").decode()}
    forms.add(json.dumps(value)[1:-1])
    forms.add(json.dumps(value, ensure_ascii=False)[1:-1])
    return forms | {quote(content), quote(content, safe=""), quote_plus(content)}


def _is_place(source: str) -> bool:
    kind, _, place = source.partition(":")
    match kind:
        case "env":
            return _NAME.fullmatch(place) is not None
        case "file":
            path = PurePosixPath(place)
            return path.is_absolute() and ".." not in path.parts and place.isprintable()
        case "kubernetes":
            return _KUBERNETES_NAME.fullmatch(place) is not None
    return False


def _read(name: str, source: str) -> str | None:
    kind, _, place = source.partition(":")
    if kind == "kubernetes":
        return None
    if kind == "env":
        value, missing = os.environ.get(place), f"the variable {place} is not set in this process"
    else:
        value, missing = _content(Path(place))
    if value is None or len(value) < LEAST_CHARACTERS:
        why = missing if value is None else f"what is there has fewer than {LEAST_CHARACTERS} characters"
        raise EnvironmentFailed(f"The secret {name} cannot be had from {source}: {why}", owner="environment")
    return value


def _content(path: Path) -> tuple[str | None, str]:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None, "it is no regular file"
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            return None, "the file has more than 1 MiB"
        if b"\0" in content:
            return None, "the file holds a null byte, which no variable can"
        return content.decode().removesuffix("\n"), ""
    except UnicodeDecodeError:
        return None, "the file is no text"
    except OSError as exc:
        return None, exc.strerror or type(exc).__name__


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe would keep whoever opens it until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)
