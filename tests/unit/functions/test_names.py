from __future__ import annotations

import runpy
from pathlib import Path

from lancegpu_sql.functions import names

SCRIPT = Path(__file__).parents[3] / "scripts" / "duckdb_names.py"


def test_the_names_are_those_of_the_installed_duckdb() -> None:
    taken = runpy.run_path(str(SCRIPT))["taken_names"]()
    assert sorted(names.duckdb_names()) == sorted(taken), f"DuckDB has changed: run {SCRIPT.name}"


def test_the_file_of_names_is_sorted() -> None:
    lines = Path(names.__file__).with_name("duckdb_names.txt").read_text().split()
    assert lines == sorted(lines)
