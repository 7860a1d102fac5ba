"""Lance keeps its warnings from the user's terminal, also where the user imported it first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import lance
from tables_kit import all_doubled, two_fragments
from lancegpu_sql.tables import TableStore, changes, reshaping, upkeep
from lancegpu_sql.tables.sources import reader_of
table = two_fragments(TableStore(sys.argv[1]))
table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
changes.update(table, {"text": "'new'"}, "id = 2")
changes.delete(table, "id = 1")
reshaping.add_sql_columns(table, {"more": "id + 1"})
upkeep.compact(table)
upkeep.remove_versions(table, [1, 2])
upkeep.update_indexes(table)
table.latest().to_arrow()
"""


def test_creating_publishing_and_upkeep_say_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LANCE_LOG"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout + run.stderr == ""
