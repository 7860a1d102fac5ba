"""Versions that are being read are known to whoever would remove them, and let go of when their reader ends, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql.errors import VersionNotFound
from lancegpu_sql.tables import Snapshot, TableStore, changes, upkeep
from lancegpu_sql.tables.reading import Reading, at_latest, is_known, latest_held, least_used, removing
from lancegpu_sql.tables.sources import reader_of

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


def test_a_version_is_used_until_its_last_reader_lets_go(table: Snapshot) -> None:
    one, other = Reading(table), Reading(table)
    one.close()
    assert least_used(table) == 1
    del other
    assert least_used(table) is None


def test_the_least_of_the_versions_in_use_is_told(table: Snapshot) -> None:
    later = [changes.add(table, reader_of({"x": [number]})) for number in range(4)]
    readings = [Reading(later[at]) for at in (2, 1, 3)]
    assert least_used(table) == later[1].version
    readings.pop(1).close()
    assert least_used(table) == later[2].version


def test_a_write_under_way_holds_the_version_that_it_began_with(table: Snapshot) -> None:
    with latest_held(table):
        changes.add(table, reader_of({"x": [2]}))
        assert least_used(table) == 1
    assert least_used(table) is None


def test_nobody_begins_to_use_a_version_while_some_are_removed(table: Snapshot) -> None:
    began = threading.Thread(target=lambda: Reading(table).close())
    with removing(table):
        began.start()
        began.join(0.05)
        assert began.is_alive()
    began.join()


def test_a_version_that_was_removed_cannot_be_held(table: Snapshot) -> None:
    changes.add(table, reader_of({"x": [2]}))
    upkeep.remove_versions(table, [1])
    with pytest.raises(VersionNotFound, match="at this very moment"):
        Reading(table)


def test_who_wants_the_latest_version_takes_a_later_one_where_it_was_removed(table: Snapshot) -> None:
    later = changes.add(table, reader_of({"x": [2]}))
    upkeep.remove_versions(table, [1])
    reading = at_latest(table, Reading)
    assert least_used(table) == later.version
    reading.close()


def test_what_is_missing_of_another_version_is_not_tried_again(table: Snapshot) -> None:
    asked = []

    def begin(snapshot: Snapshot) -> None:
        asked.append(snapshot.version)
        table.checkout(99)

    with pytest.raises(VersionNotFound, match="no version 99"):
        at_latest(table, begin)
    assert asked == [1]


def test_nothing_is_written_beside_tables_of_no_database(tmp_path: Path) -> None:
    table = TableStore(tmp_path).create("t", pa.table({"x": [1]}).to_reader())
    reading = Reading(table)
    assert (least_used(table), is_known(table)) == (None, False)
    reading.close()
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


def test_a_killed_reader_lets_go(table: Snapshot) -> None:
    run = [sys.executable, "-c", READER, str(Path(table.uri).parent)]
    with subprocess.Popen(run, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reads\n"
        assert least_used(table) == 1
        reader.kill()
    assert least_used(table) is None
