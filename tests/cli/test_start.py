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


def test_what_was_loaded_is_not_taken_apart_at_the_end():
    program = """
import sys
from lancegpu_sql.cli import main
class Loaded:
    def __del__(self): print("taken apart")
loaded = Loaded()
loaded.itself = loaded
sys.argv = ["lancegpu", "--version"]
sys.exit(main())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "taken apart" not in ran.stdout


@pytest.mark.parametrize("arguments", ["--help", "--version", "refresh --help", "nonsense"])
def test_help_and_wrong_usage_load_nothing_heavy(arguments: str):
    assert loaded_by(*arguments.split()) == set()


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback():
    program = """
import os, signal, sys
from lancegpu_sql.cli import main
class Interrupting:
    def find_spec(self, name, *_):
        if name == "typer": os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.exit(main(["--version"]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
