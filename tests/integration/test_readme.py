"""The code in README.md and docs/ runs, twice in a row in one folder, and prints what the text says."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import prints_as_told, program_of
from programs import run_program
from skips import nothing
from suites import TESTS

ROOT = TESTS.parent
WITH_CODE = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if program_of(path.read_text()).source
]


@pytest.mark.parametrize("document", WITH_CODE or [nothing()], ids=lambda path: path and str(path.relative_to(ROOT)))
def test_the_code_of_a_document_runs_twice_and_prints_what_it_says(document: Path, fresh_folder: Path):
    program = program_of(document.read_text())
    path = program.write(fresh_folder)
    for _ in range(2):
        printed = run_program(path, folder=fresh_folder)
        assert program.output is None or prints_as_told(program.output, printed), printed
