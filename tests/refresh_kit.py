"""Functions that note each call, a gate that holds one of them up, and databases in short-lived folders."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lancegpu_sql as lg
from lancegpu_sql import function
from lancegpu_sql.database import Database, Table

PATIENCE_SECONDS = 120.0


def reference(x: int | None, times: int = 10) -> int | None:
    """What the noting Function makes of a number; one in seven becomes a null."""
    return None if x is None or x % 7 == 0 else x * times


class Calls:
    """The rows for which a Function was called, by their keys, as its workers note them in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._taken = 0

    def take(self) -> Counter[int]:
        """Return the calls since the last look."""
        new = self._new()
        self._taken += len(new)
        return Counter(int(line) for line in new.split())

    def waiting(self) -> int:
        """Return how many calls there were since the last `take`."""
        return len(self._new().split())

    def _new(self) -> str:
        return self.path.read_text()[self._taken :] if self.path.exists() else ""


def noting(calls: Calls, name: str = "noting", *, times: int = 10, **options: Any) -> Any:
    """A Function of (key, x) that notes each key it is called for."""
    path = str(calls.path)

    @function(name=name, **options)
    def note(key: int, x: int | None) -> int | None:
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        return None if x is None or x % 7 == 0 else x * times

    return note


class Gate:
    """Holds a Function's call up until the test lets it go; each `arm` holds up one call."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.armed, self.arrived, self.go = folder / "armed", folder / "arrived", folder / "go"
        for pipe in (self.arrived, self.go):
            os.mkfifo(pipe)
        self._arrived = os.open(self.arrived, os.O_RDWR)
        self._go = os.open(self.go, os.O_RDWR)

    def arm(self) -> None:
        """Let the next call wait."""
        self.armed.touch()

    def wait_for_call(self) -> None:
        """Return once a call stands at the gate."""
        assert select.select([self._arrived], [], [], PATIENCE_SECONDS)[0], "no call came to the gate"
        os.read(self._arrived, 1)

    def open(self) -> None:
        """Let the call that waits go on."""
        os.write(self._go, b"g")

    def close(self) -> None:
        """Give the pipes back."""
        os.close(self._arrived)
        os.close(self._go)


def gated(
    calls: Calls, gate: Gate, name: str = "gated", *, times: int = 10, at: int | None = None, **options: Any
) -> Any:
    """A noting Function whose next call (for the key `at`, if given) waits at the gate while that is armed."""
    path, armed, arrived, go = str(calls.path), str(gate.armed), str(gate.arrived), str(gate.go)

    @function(name=name, **options)
    def wait_and_note(key: int, x: int | None) -> int | None:
        if (at is None or key == at) and Path(armed).exists():
            Path(armed).unlink()
            with Path(arrived).open("wb", buffering=0) as file:
                file.write(b"a")
            with Path(go).open("rb", buffering=0) as file:
                file.read(1)
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        return None if x is None or x % 7 == 0 else x * times

    return wait_and_note


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room for a socket's."""
    folder = Path(tempfile.mkdtemp(prefix="lg-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_database(folder: Path, **options: Any) -> Iterator[Database]:
    """A database whose workers share no device with anybody else's."""
    usual = {"runtime_folder": folder / "run", "progress": "quiet", "worker_idle_seconds": 600.0, "max_workers": 1}
    with lg.connect(folder / "db", **(usual | options)) as database:
        yield database


def by_key(table: Table, column: str = "y", key: str = "key") -> dict[int, Any]:
    """The column's values by key; fails where a key stands twice."""
    rows = table.to_arrow([key, column])
    found = dict(zip(rows[key].to_pylist(), rows[column].to_pylist(), strict=True))
    assert len(found) == rows.num_rows, "a row was doubled"
    return found


def status(table: Table, column: str = "y") -> tuple[int, int, int, int]:
    """How many rows of a column are fresh, stale, failed, never computed."""
    one = next(state for state in table.columns_status() if state.column == column)
    assert one.fresh_rows + one.stale_rows + one.failed_rows + one.never_computed_rows == table.count_rows()
    return one.fresh_rows, one.stale_rows, one.failed_rows, one.never_computed_rows
