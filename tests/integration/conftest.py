"""What files of this folder share that look at how often Functions were called; a file with needs of its own has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from refresh_kit import Calls, short_folder


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Of a file's tests together."""
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def calls(folder: Path) -> Calls:
    """What noting Functions noted."""
    return Calls(folder / "calls")
