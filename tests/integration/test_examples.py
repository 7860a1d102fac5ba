"""Every program in examples/ runs from a fresh copy of its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from programs import run_program
from skips import nothing
from suites import TESTS

EXAMPLES = TESTS.parent / "examples"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")) or [nothing()], ids=lambda path: path and path.name)
def test_an_example_runs(example: Path, fresh_folder: Path):
    folder = shutil.copytree(EXAMPLES, fresh_folder / "examples")
    run_program(folder / example.name, folder=folder)
