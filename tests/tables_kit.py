"""Small tables with a computed column, and the files a refresh would write for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.tables import ColumnFile, Snapshot, TableStore, changes
from lancegpu_sql.tables.columns import proof_name
from lancegpu_sql.tables.files import object_session
from lancegpu_sql.tables.sources import reader_of

FOLDER, OBJECT_STORE = "folder", "object store"
PLACES = (FOLDER, OBJECT_STORE)
"""Where tables may lie: what holds of one holds of the other."""

PROOF = proof_name("y")
COLUMN = pa.schema([("y", pa.int64()), (PROOF, pa.binary(16))])


def store_at(request: pytest.FixtureRequest, folder: Path) -> TableStore:
    """An empty store at the place that is the fixture's parameter."""
    if request.param == FOLDER:
        return TableStore(folder)
    server = request.getfixturevalue("s3_server")
    return TableStore(server.uri(), server.options())


def declaration(table: Snapshot, column: str = "y", *, inputs: str = "id", proof: str = PROOF) -> ComputedColumn:
    """What a refresh needs to know of `column`, computed from `inputs`."""
    return ComputedColumn(
        column=column,
        function="double",
        version=1,
        digest="0" * 32,
        inputs={"x": table.field_id(inputs)},
        proof_column=proof,
    )


def two_fragments(store: TableStore, name: str = "t") -> Snapshot:
    """Rows 1 to 3 and 4 to 5, each in a fragment of its own, with an empty computed column y."""
    table = store.create(name, reader_of({"id": [1, 2, 3], "text": ["a", "b", None]}))
    table = changes.add(table, reader_of({"id": [4, 5], "text": ["d", "e"]}))
    return table.declare([(pa.field("y", pa.int64()), declaration(table))], PROOF)


def values(numbers: Iterable[int | None]) -> pa.RecordBatch:
    """A batch of y with a proof beside each."""
    column = pa.array(list(numbers), pa.int64())
    return pa.record_batch([column, pa.array([b"p" * 16] * len(column), pa.binary(16))], schema=COLUMN)


def doubled(table: Snapshot, fragment_id: int) -> ColumnFile:
    """The file of y for one fragment: twice the id, of deleted rows too."""
    ids = [number for batch in table.read_physical(fragment_id, ["id"]) for number in batch["id"].to_pylist()]
    return table.write_column_file(fragment_id, COLUMN, [values(2 * number for number in ids)])


def all_doubled(table: Snapshot) -> list[ColumnFile]:
    """The files of y for all fragments."""
    return [doubled(table, fragment.id) for fragment in table.fragments]


def files_of(table: Snapshot, column: str) -> list[set[str]]:
    """The files that hold a column, for each fragment; none where it reads as nulls."""
    leaves = set(table.leaves[table.field_id(column)])
    return [{file.path for file in one.files if leaves & set(file.field_ids)} for one in table.fragments]


def data_files(table: Snapshot) -> set[str]:
    """The files below its folder ``data/``, whether a version has them or not."""
    if "://" in table.uri:
        return set(object_session(table.uri, table.storage_options).list("data"))
    return {path.name for path in Path(table.uri, "data").iterdir()}


def by_id(table: Snapshot, column: str = "y") -> dict[int, object]:
    """The column's values in the latest version, by id."""
    rows = table.latest().to_arrow(["id", column])
    return dict(zip(rows["id"].to_pylist(), rows[column].to_pylist(), strict=True))


def outrun(store: TableStore) -> pa.RecordBatchReader:
    """Rows during whose reading someone else creates the table."""

    def batches() -> Iterator[pa.RecordBatch]:
        store.create("t", reader_of({"id": [7]}))
        yield pa.record_batch({"id": [1]})

    return pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
