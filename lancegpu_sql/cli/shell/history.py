"""The statements that were typed, kept in a file that only its user can read."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory


def history_path() -> Path:
    """Return where statements are kept: ``lancegpu/sql_history`` in the user's folder for state (XDG)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "lancegpu" / "sql_history"


def open_history() -> tuple[History, str | None]:
    """Return the statements of earlier shells, and why they are not kept where they cannot be."""
    try:
        path = history_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    except (OSError, RuntimeError) as exc:
        return InMemoryHistory(), f"Statements are not kept for the next time: {exc}"
    return _PrivateHistory(path), None


class _PrivateHistory(FileHistory):
    def store_string(self, string: str) -> None:
        """Keep a statement, unless it begins with a space, as one with a secret in it may."""
        if not string.startswith(" "):
            super().store_string(string)
