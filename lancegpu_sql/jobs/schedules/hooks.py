"""Calls those who want to know: a webhook or a command, in a thread of its own, whatever comes of it."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from typing import Any
from urllib.parse import urlsplit

from lancegpu_sql.catalog.schedule_models import Hook
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import shown

Told = Callable[[str | None], None]
"""Hears how a call went: None where it went well, or else why not."""

_MOST_PENDING = 1000
_LAST_CHARACTERS = 300

_log = logging.getLogger("lancegpu_sql.agent")


def hook_of(value: object, what: str) -> Hook | None:
    """Return a hook as a caller wrote it: the URL of a webhook, or a command as the list of its words.

    Raises
    ------
    InvalidInput
        It is neither.
    """
    if value is None or isinstance(value, Hook):
        return value
    if isinstance(value, str):
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") and parts.hostname:
            return Hook(url=value)
        raise InvalidInput(f"{what} is a URL that begins with http:// or https://, or a command as a list of words")
    words = list(value) if isinstance(value, list | tuple) else []
    if words and all(isinstance(word, str) and "\0" not in word for word in words) and words[0]:
        return Hook(command=tuple(words))
    raise InvalidInput(
        f"{what} is the URL of a webhook, or a command as a list of words such as ['notify', '--all']; not {shown(value)}"
    )


def hook_told(hook: Hook) -> str:
    """Return a hook as people may see it: of a URL the host alone, for its path is often a secret."""
    if hook.url is not None:
        parts = urlsplit(hook.url)
        return f"{parts.scheme}://{parts.hostname}/…"
    return (hook.command or ("",))[0]


class HookCaller:
    """Calls hooks one after the other; a slow or broken one holds up nobody but other hooks.

    Parameters
    ----------
    timeout_seconds
        How long one call may take.
    commands
        Whether commands may be run, which anyone who may set a schedule can then do on this machine.
    """

    def __init__(self, timeout_seconds: float, *, commands: bool) -> None:
        self._timeout_seconds = timeout_seconds
        self._commands = commands
        self._pending: Queue[tuple[Hook, Mapping[str, Any], Told]] = Queue(_MOST_PENDING)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, hook: Hook, facts: Mapping[str, Any], told: Told) -> None:
        """Call a hook soon; returns at once."""
        try:
            self._pending.put_nowait((hook, facts, told))
        except Full:
            _log.warning("%s was not called: %d calls are before it.", hook_told(hook), _MOST_PENDING)
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lancegpu hooks", daemon=True)
                self._thread.start()

    def close(self, timeout_seconds: float) -> None:
        """Make the calls that are pending, as far as the time allows."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            try:
                hook, facts, told = self._pending.get(timeout=0.2)
            except Empty:
                if self._closing.is_set():
                    return
                continue
            try:
                told(self._problem(hook, facts))
            except Exception as problem:  # the catalog, perhaps: the next hook may fare better
                _log.warning("What came of calling %s could not be kept: %s", hook_told(hook), problem)

    def _problem(self, hook: Hook, facts: Mapping[str, Any]) -> str | None:
        body = json.dumps(facts, default=str, ensure_ascii=False).encode()
        try:
            if hook.url is not None:
                _post(hook.url, body, self._timeout_seconds)
                return None
            if not self._commands:
                return "commands are not run by this agent (setting hook_commands)"
            return _run_command(hook.command or (), body, self._timeout_seconds)
        except Exception as problem:  # whatever a network or a program comes up with stays with this hook
            return f"{type(problem).__name__}: {problem}"


def _post(url: str, body: bytes, timeout_seconds: float) -> None:
    # Loaded by who calls a webhook: its modules take as long as all others of this room.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(  # noqa: S310 - `hook_of` lets nothing but http and https pass
        url, data=body, headers={"Content-Type": "application/json", "User-Agent": "lancegpu"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds):  # noqa: S310
            pass
    except urllib.error.HTTPError as refused:
        refused.close()
        raise


def _run_command(words: tuple[str, ...], body: bytes, timeout_seconds: float) -> str | None:
    done = subprocess.run(
        words, input=body, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=timeout_seconds, check=False
    )
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip()[-_LAST_CHARACTERS:]
    return f"it ended with status {done.returncode}{f': {said}' if said else ''}"
