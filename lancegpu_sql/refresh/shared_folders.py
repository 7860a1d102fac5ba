"""Looks into folders from which other processes take things away meanwhile: what is gone is no fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def entries(folder: Path) -> list[Path]:
    """Return what stands in a folder, by name; nothing where there is no such folder (any more)."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def with_all_below(path: Path) -> Iterator[Path]:
    """Yield a path, and what stands in it at any depth."""
    yield path
    # Unlike `rglob`, it goes on where a folder has vanished.
    for here, folders, files in os.walk(path):
        yield from (Path(here, name) for name in (*folders, *files))
