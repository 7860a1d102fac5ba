"""Tables in an object store: what is there with its first manifest and gone with its last, and a store that refuses."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import PurePosixPath

import lance
import numpy as np
import pyarrow as pa
import pytest
from object_store import ACCESS_KEY, SECRET, FaultyWay, Request, S3Server, faulty_way
from tables_kit import all_doubled, by_id, outrun, two_fragments

from lancegpu_sql.errors import AlreadyExists, CommitConflict, InvalidData, StorageError, TableNotFound
from lancegpu_sql.tables import TableStore, changes
from lancegpu_sql.tables.database_note import DatabaseNote
from lancegpu_sql.tables.files import object_session
from lancegpu_sql.tables.row_changes import RowChanges
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture
def store(s3_server: S3Server) -> TableStore:
    return TableStore(s3_server.uri(), s3_server.options())


@pytest.fixture
def way(s3_server: S3Server) -> Iterator[FaultyWay]:
    with faulty_way(s3_server) as way:
        yield way


@pytest.fixture
def behind(store: TableStore, s3_server: S3Server, way: FaultyWay) -> TableStore:
    """The same tables, by a way that may fail; no retries, which would only take time."""
    return TableStore(store.uri, s3_server.options(way.endpoint) | {"client_max_retries": "0"})


def objects(store: TableStore) -> list[str]:
    return sorted(object_session(store.uri, store.storage_options).list())


def from_lancedb(store: TableStore, name: str) -> None:
    """A table as LanceDB makes them, without stable row ids."""
    lance.write_dataset(
        pa.table({"id": [1, 2]}), store.path_of(name), storage_options=dict(store.storage_options or {})
    )


def refusing(way: FaultyWay, status: int, code: str, *methods: str, part: str = "") -> None:
    """Let the way refuse what is asked by one of these methods of objects with this in their names."""

    def fault(request: Request) -> tuple[int, str] | None:
        return (status, code) if request.method in methods and part in request.path else None

    way.fault = fault


# --- what is a table


def test_names_lists_tables_and_nothing_else(store: TableStore) -> None:
    store.create("b", reader_of({"id": [1]}))
    store.create("A.x", reader_of({"id": [1]}))
    object_session(store.uri, store.storage_options).upload_file(__file__, "c.lance/data/begun.lance")
    object_session(store.uri, store.storage_options).upload_file(__file__, "notes.lance")
    assert store.names() == ["A.x", "b"]
    assert not store.exists("c")


def test_a_creation_that_fails_leaves_no_table_and_its_name_free(store: TableStore) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        store.create("t", pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert store.names() == []
    assert store.create("t", reader_of({"id": [2]})).to_arrow().to_pydict() == {"id": [2]}


def test_of_two_creations_at_once_the_second_finds_the_table_of_the_first(store: TableStore) -> None:
    assert store.create("t", outrun(store), "exist_ok").to_arrow().to_pydict() == {"id": [7]}
    store.drop("t")
    with pytest.raises(CommitConflict, match="no row was added"):
        store.create("t", outrun(store), "append")


def test_of_many_creations_at_once_one_is_made(store: TableStore) -> None:
    def create(number: int) -> int | None:
        try:
            return int(store.create("t", reader_of({"id": [number]})).to_arrow()["id"][0].as_py())
        except AlreadyExists:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [number for number in pool.map(create, range(8)) if number is not None]
    assert made == store.open("t").to_arrow()["id"].to_pylist()


def test_many_writers_at_once_lose_no_commit(store: TableStore) -> None:
    table = store.create("t", reader_of({"id": [-1]}))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: changes.add(table, reader_of({"id": [number]})), range(24)))
    assert sorted(table.latest().to_arrow()["id"].to_pylist()) == list(range(-1, 24))


def test_tables_of_lancedb_are_neither_replaced_nor_converted(store: TableStore) -> None:
    from_lancedb(store, "theirs")
    with pytest.raises(InvalidData, match="Drop it first"):
        store.create("theirs", reader_of({"id": [3]}), "overwrite")
    with pytest.raises(InvalidData, match="cannot be converted where it is"):
        store.convert("theirs")
    assert store.open("theirs").to_arrow().to_pydict() == {"id": [1, 2]}


# --- what goes


def test_a_dropped_table_leaves_no_object(store: TableStore) -> None:
    two_fragments(store)
    store.drop("t")
    assert objects(store) == []
    with pytest.raises(TableNotFound):
        store.open("t")


def test_a_table_whose_drop_broke_off_is_whole_at_its_latest_version(
    store: TableStore, behind: TableStore, way: FaultyWay
) -> None:
    table = two_fragments(store)
    latest = PurePosixPath(min(one for one in objects(store) if "_versions/" in one)).name

    def fault(request: Request) -> tuple[int, str] | None:
        deletes = request.method in ("DELETE", "POST")
        return (503, "SlowDown") if deletes and sum(one.method == request.method for one in way.seen) > 2 else None

    way.fault = fault
    with pytest.raises(StorageError, match="overloaded"):
        behind.drop("t")
    assert any(one.endswith(latest) for one in objects(store))
    assert store.open("t").to_arrow(["id"]).num_rows == 5
    assert store.open("t").version == table.version
    store.drop("t")
    assert objects(store) == []


def test_a_stamp_changes_with_each_commit_and_with_a_table_made_anew(store: TableStore) -> None:
    table = store.create("t", reader_of({"id": [1]}))
    first = store.stamp("t")
    assert store.stamp("t") == first
    changes.add(table, reader_of({"id": [2]}))
    assert store.stamp("t") != first
    store.drop("t")
    assert store.stamp("t") is None
    store.create("t", reader_of({"id": [1]}))
    assert store.stamp("t") != first


# --- a store that refuses


def told(caught: pytest.ExceptionInfo[BaseException]) -> str:
    """Everything that a traceback would show."""
    return "".join(traceback.format_exception(caught.value))


def test_a_store_that_does_not_answer_is_named_with_the_table(s3_server: S3Server) -> None:
    options = s3_server.options("http://127.0.0.1:9") | {"client_max_retries": "0"}
    with pytest.raises(
        StorageError, match=r"Table 't' .* at http://127\.0\.0\.1:9/shop-bucket: it does not answer"
    ) as caught:
        TableStore(s3_server.uri(), options).open("t")
    assert caught.value.retryable
    assert SECRET not in told(caught)


def test_refused_credentials_are_told_and_not_shown(behind: TableStore, store: TableStore, way: FaultyWay) -> None:
    two_fragments(store)
    refusing(way, 403, "InvalidAccessKeyId", "GET", "HEAD", "PUT")
    with pytest.raises(StorageError, match=r"\(403 InvalidAccessKeyId\): it does not take these credentials") as caught:
        behind.open("t")
    assert not caught.value.retryable
    assert ACCESS_KEY not in told(caught)
    assert SECRET not in told(caught)


def test_a_bucket_that_is_not_there_is_told(s3_server: S3Server) -> None:
    with pytest.raises(StorageError, match="it has no such bucket"):
        TableStore("s3://no-such-bucket/shop", s3_server.options()).open("t")


@pytest.mark.parametrize("part", ["/data/", "/_versions/", "/_transactions/"])
def test_a_full_store_takes_no_half_of_a_write(
    store: TableStore, behind: TableStore, way: FaultyWay, part: str
) -> None:
    table = two_fragments(store)
    refusing(way, 507, "QuotaExceeded", "PUT", "POST", part=part)
    with pytest.raises(StorageError, match=r"Table 't' .*the store is full") as caught:
        changes.add(behind.open("t"), reader_of({"id": [6], "text": ["f"]}))
    assert caught.value.retryable
    assert store.open("t").version == table.version
    way.fault = lambda request: None
    assert changes.add(behind.open("t"), reader_of({"id": [6], "text": ["f"]})).count_rows() == 6


def test_a_full_store_keeps_the_files_of_a_publication_for_the_next_try(
    store: TableStore, behind: TableStore, way: FaultyWay
) -> None:
    two_fragments(store)
    table = behind.open("t")
    files = all_doubled(table)
    refusing(way, 507, "QuotaExceeded", "PUT", part="/_versions/")
    with pytest.raises(StorageError, match="the store is full"):
        table.publish(files, job_id="j", guard=lambda fragment: True)
    assert by_id(store.open("t")) == dict.fromkeys(range(1, 6))
    way.fault = lambda request: None
    table.publish(files, job_id="j", guard=lambda fragment: True)
    assert by_id(store.open("t")) == {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}


@pytest.mark.parametrize("commit", ["known", "unknown"])
def test_a_commit_whose_reply_is_lost_loses_no_file(
    store: TableStore, behind: TableStore, way: FaultyWay, commit: str
) -> None:
    two_fragments(store)
    table = behind.open("t")
    ids, addresses = (np.array([number], dtype=np.uint64) for number in (0, 0))
    way.lost = lambda request: request.method == "PUT" and "/_versions/" in request.path
    if commit == "unknown":
        refusing(way, 503, "SlowDown", "HEAD", part="/_versions/")
    with suppress(StorageError), RowChanges(table) as work:
        work.update(ids, addresses, pa.record_batch({"text": ["mine"]}))
        work.commit()
    assert by_id(store.open("t"), "text")[1] == "mine"


def test_a_creation_whose_reply_is_lost_makes_the_table(store: TableStore, behind: TableStore, way: FaultyWay) -> None:
    way.lost = lambda request: request.method == "PUT" and "/_versions/" in request.path
    behind.create("t", reader_of({"id": [1]}))
    assert store.open("t").to_arrow().to_pydict() == {"id": [1]}


def test_a_slow_store_only_takes_longer(store: TableStore, behind: TableStore, way: FaultyWay) -> None:
    two_fragments(store)
    way.delay_seconds = 0.05
    begun = time.monotonic()
    assert changes.add(behind.open("t"), reader_of({"id": [6], "text": ["f"]})).count_rows() == 6
    assert time.monotonic() - begun >= way.delay_seconds


# --- what the database says of itself


def test_of_processes_that_come_at_once_all_take_one_id(s3_server: S3Server) -> None:
    uri = s3_server.uri()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: DatabaseNote(uri, s3_server.options()).database_id(), range(8)))
    assert len(set(found)) == 1


def test_where_the_catalog_is_stays_noted(s3_server: S3Server) -> None:
    note = DatabaseNote(s3_server.uri(), s3_server.options())
    identity = note.database_id()
    assert note.kept_at() is None
    note.keep("postgresql://user@host/name")
    note.keep("postgresql://user@host/name")
    assert (note.database_id(), note.kept_at()) == (identity, "postgresql://user@host/name")
