"""Versions that are being read are known to whoever would remove them, and let go of when their reader ends, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql.tables import Snapshot, TableStore
from lancegpu_sql.tables.reading import Reading, versions_used

READER = """
import sys
from lancegpu_sql.tables import TableStore
from lancegpu_sql.tables.reading import Reading

reading = Reading(TableStore(sys.argv[1]).open("t"))
print("reads", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def table(tmp_path: Path) -> Snapshot:
    (tmp_path / ".lancegpu").mkdir()
    return TableStore(tmp_path).create("t", pa.table({"x": [1]}).to_reader())


@pytest.fixture
def files(tmp_path: Path, table: Snapshot) -> Path:
    return tmp_path / ".lancegpu" / "reading"


def test_a_version_is_read_until_its_last_reader_lets_go(table: Snapshot, files: Path) -> None:
    one, other = Reading(table), Reading(table)
    one.close()
    assert versions_used(table) == {1}
    del other
    assert versions_used(table) == set()
    assert [path for path in files.iterdir() if not path.name.endswith("-removing")] == []


def test_nothing_is_written_beside_tables_of_no_database(tmp_path: Path) -> None:
    table = TableStore(tmp_path).create("t", pa.table({"x": [1]}).to_reader())
    reading = Reading(table)
    assert versions_used(table) == set()
    reading.close()
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


def test_a_killed_reader_lets_go(table: Snapshot, files: Path) -> None:
    run = [sys.executable, "-c", READER, str(Path(table.uri).parent)]
    with subprocess.Popen(run, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reads\n"
        assert versions_used(table) == {1}
        reader.kill()
    assert versions_used(table) == set()
    assert [path for path in files.iterdir() if not path.name.endswith("-removing")] == []
