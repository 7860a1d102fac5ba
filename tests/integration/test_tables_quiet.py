"""Lance keeps its warnings from the user's terminal, unless the user asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from tables_kit import all_doubled, two_fragments
from lancegpu_sql.tables import TableStore
table = two_fragments(TableStore(sys.argv[1]))
table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
"""


def said_on_stderr(folder: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "LANCE_LOG"}
    clean["PYTHONPATH"] = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout + run.stderr


def test_creating_and_publishing_say_nothing(tmp_path: Path) -> None:
    assert said_on_stderr(tmp_path) == ""


def test_a_users_own_log_level_is_kept(tmp_path: Path) -> None:
    assert "not stable yet" in said_on_stderr(tmp_path, LANCE_LOG="warn")
