"""The command line starts quickly: what a command does not use is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Not pydantic: typer reads values with it.
HEAVY = {"duckdb", "lance", "numpy", "pandas", "pyarrow", "rich", "sqlalchemy", "sqlglot", "yaml"}


def loaded_by(*arguments: str) -> set[str]:
    """The heavy libraries that a command loads in a process of its own."""
    program = "import sys\nfrom lancegpu_sql.cli import main\nmain(sys.argv[1:])\nprint('\\n', *sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return HEAVY & set(ran.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", ["--help", "--version", "refresh --help", "nonsense"])
def test_help_and_wrong_usage_load_nothing_heavy(arguments: str):
    assert loaded_by(*arguments.split()) == set()
