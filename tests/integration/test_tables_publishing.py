"""Publication: never onto other rows, never twice, never half, whoever else writes.

A guard runs between the look at the latest version and the commit: what a test does there happens in that window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tables_kit import (
    COLUMN,
    PLACES,
    PROOF,
    all_doubled,
    by_id,
    declaration,
    doubled,
    files_of,
    store_at,
    two_fragments,
    values,
)

from lancegpu_sql.errors import StorageError
from lancegpu_sql.tables import Fragment, Snapshot, TableStore, changes, publishing, reshaping, upkeep
from lancegpu_sql.tables.engine import lance
from lancegpu_sql.tables.sources import reader_of

DOUBLED = {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return store_at(request, tmp_path)


@pytest.fixture
def table(store: TableStore) -> Snapshot:
    return two_fragments(store)


def always(fragment: Fragment) -> bool:
    return True


def once(act: Callable[[], Any]) -> Callable[[Fragment], bool]:
    """A guard that says yes, and acts the first time it is asked."""
    acts = [act]

    def guard(fragment: Fragment) -> bool:
        if acts:
            acts.pop()()
        return True

    return guard


def compact(table: Snapshot) -> Snapshot:
    return upkeep.compact(table).snapshot


def overwritten(store: TableStore) -> Snapshot:
    """The same name, schema and number of rows; the same field ids, too."""
    rows = {"id": [10, 20, 30], "text": ["a", "b", "c"], "y": pa.array([None] * 3, pa.int64())}
    return store.create("t", reader_of(rows), mode="overwrite")


def test_many_fragments_take_their_files_in_one_commit(table: Snapshot) -> None:
    publication = table.publish(all_doubled(table), job_id="job 1", guard=always)
    assert publication == publishing.Publication(table.version + 1, (0, 1), ())
    assert by_id(table) == DOUBLED
    transaction = table.latest().dataset.read_transaction(publication.version)
    assert transaction.transaction_properties["lancegpu:job"] == "job 1"


def test_value_and_proof_stand_in_one_file(table: Snapshot) -> None:
    table.publish(all_doubled(table), job_id="j", guard=always)
    latest = table.latest()
    assert all(files_of(latest, "y"))
    assert files_of(latest, "y") == files_of(latest, PROOF)


def test_publishing_again_replaces_the_values(table: Snapshot) -> None:
    table.publish(all_doubled(table), job_id="j", guard=always)
    latest = table.latest()
    latest.publish([latest.write_column_file(0, COLUMN, [values([7, None, 9])])], job_id="j", guard=always)
    assert by_id(table) == {**DOUBLED, 1: 7, 2: None, 3: 9}


def test_rows_are_marked_as_updated_and_keep_their_ids(table: Snapshot) -> None:
    columns = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    version = table.publish([doubled(table, 1)], job_id="j", guard=always).version
    rows = table.latest().dataset.scanner(columns=columns).to_table()
    assert [column.to_pylist() for column in rows] == [[0, 1, 2, 3, 4], [1, 1, 1, 2, 2], [1, 1, 1, version, version]]


@pytest.mark.parametrize("built", ["before", "meanwhile"])
def test_an_index_does_not_answer_for_values_it_has_not_seen(table: Snapshot, built: str) -> None:
    table.publish(all_doubled(table), job_id="j", guard=always)
    stale = lance.dataset(table.uri, storage_options=table.storage_options)
    if built == "before":
        stale.create_scalar_index("y", "BTREE")
    latest = table.latest()
    latest.publish([latest.write_column_file(0, COLUMN, [values([8, 8, 8])])], job_id="j", guard=always)
    if built == "meanwhile":
        stale.create_scalar_index("y", "BTREE")
    assert (table.latest().count_rows("y = 8"), table.latest().count_rows("y = 2")) == (4, 0)


def test_a_guard_that_refuses_loses_the_fragment(table: Snapshot) -> None:
    publication = table.publish(all_doubled(table), job_id="j", guard=lambda fragment: fragment.id == 1)
    assert (publication.published, publication.lost) == ((1,), (0,))
    assert by_id(table) == {1: None, 2: None, 3: None, 4: 8, 5: 10}


def test_nothing_to_publish_makes_no_version(table: Snapshot) -> None:
    assert table.publish([], job_id="j", guard=always) == publishing.Publication(table.version, (), ())


def test_two_files_for_one_fragment_are_a_mistake(table: Snapshot) -> None:
    with pytest.raises(ValueError, match="one fragment"):
        table.publish([doubled(table, 0), doubled(table, 0)], job_id="j", guard=always)


BEARABLE: list[Callable[[Snapshot], Any]] = [
    lambda table: changes.add(table, reader_of({"id": [6]})),
    lambda table: changes.delete(table, "id = 2"),
    lambda table: changes.update(table, {"text": "'new'"}, "id = 2"),
    lambda table: reshaping.rename_column(table, "id", "id2") and reshaping.rename_column(table, "id2", "id"),
    lambda table: reshaping.add_sql_columns(table, {"more": "id + 1"}),
    lambda table: reshaping.retype_column(table, "text", pa.large_string()),
    lambda table: table.publish(all_doubled(table), job_id="rival", guard=always),
    lambda table: table.repoint(table.computed),
]


@pytest.mark.parametrize("write", BEARABLE)
@pytest.mark.parametrize("window", ["before", "between look and commit"])
def test_writes_that_leave_the_fragments_lose_nothing(
    table: Snapshot, write: Callable[[Snapshot], Any], window: str
) -> None:
    files = all_doubled(table)
    if window == "before":
        write(table)
        publication = table.publish(files, job_id="j", guard=always)
    else:
        publication = table.publish(files, job_id="j", guard=once(lambda: write(table)))
    assert publication.published == (0, 1)
    found = by_id(table)
    # An updated row moved to a new fragment, with the value it had: none.
    assert {key: value for key, value in found.items() if value is not None}.items() <= DOUBLED.items()
    assert sum(value is None for value in found.values()) <= 1
    table.latest().dataset.validate()


@pytest.mark.parametrize("window", ["before", "between look and commit"])
def test_an_overwritten_table_never_takes_values_of_the_old_rows(
    store: TableStore, table: Snapshot, window: str
) -> None:
    files = all_doubled(table)
    if window == "before":
        overwritten(store)
        publication = table.publish(files, job_id="j", guard=always)
    else:
        publication = table.publish(files, job_id="j", guard=once(lambda: overwritten(store)))
    assert (publication.published, publication.lost) == ((), (0, 1))
    assert by_id(table) == {10: None, 20: None, 30: None}


@pytest.mark.parametrize("window", ["before", "between look and commit"])
def test_compacted_fragments_are_lost(table: Snapshot, window: str) -> None:
    files = all_doubled(table)
    if window == "before":
        compact(table)
        publication = table.publish(files, job_id="j", guard=always)
    else:
        publication = table.publish(files, job_id="j", guard=once(lambda: compact(table)))
    assert publication.lost == (0, 1)
    assert by_id(table) == dict.fromkeys(DOUBLED)


def test_a_compacted_fragment_does_not_cost_the_others_theirs(store: TableStore) -> None:
    table = two_fragments(store)
    files = all_doubled(table)
    changes.delete(table, "id IN (4, 5)")
    publication = table.publish(files, job_id="j", guard=always)
    assert (publication.published, publication.lost) == ((0,), (1,))


@pytest.mark.parametrize("window", ["before", "between look and commit"])
def test_a_restored_version_takes_what_suits_its_fragments(table: Snapshot, window: str) -> None:
    changes.update(table, {"text": "'new'"}, "id = 4")
    latest = table.latest()
    files = all_doubled(latest)
    assert [file.fragment_id for file in files] == [0, 1, 2]
    if window == "before":
        upkeep.restore(table, table.version)
        publication = latest.publish(files, job_id="j", guard=always)
    else:
        publication = latest.publish(files, job_id="j", guard=once(lambda: upkeep.restore(table, table.version)))
    assert (publication.published, publication.lost) == ((0, 1), (2,))
    assert by_id(table) == DOUBLED


def test_a_restore_to_before_the_column_loses_all(table: Snapshot) -> None:
    files = all_doubled(table)
    upkeep.restore(table, 1)
    assert table.publish(files, job_id="j", guard=always).lost == (0, 1)


@pytest.mark.parametrize("window", ["before", "between look and commit"])
def test_a_column_dropped_and_declared_again_takes_no_old_values(table: Snapshot, window: str) -> None:
    def again() -> None:
        reshaping.drop_columns(table, ["y"])
        table.declare([(pa.field("y", pa.int64()), table.computed[0])], PROOF)

    files = all_doubled(table)
    if window == "before":
        again()
        publication = table.publish(files, job_id="j", guard=always)
    else:
        publication = table.publish(files, job_id="j", guard=once(again))
    assert publication.lost == (0, 1)
    assert by_id(table) == dict.fromkeys(DOUBLED)


def test_a_table_made_anew_before_the_look_takes_nothing(store: TableStore, table: Snapshot) -> None:
    files = all_doubled(table)
    store.drop("t")
    two_fragments(store)
    assert table.publish(files, job_id="j", guard=always).lost == (0, 1)
    assert by_id(table) == dict.fromkeys(DOUBLED)


def test_a_table_made_anew_under_the_commit_stays_as_it_was_made(store: TableStore, table: Snapshot) -> None:
    def late(latest: Snapshot, operation: Any, properties: dict[str, str]) -> Snapshot:
        store.drop("t")
        two_fragments(store)
        return publishing.commit(latest, operation, properties)

    publication = publishing.publish(table, all_doubled(table), job_id="j", guard=always, commit=late)
    assert (publication.published, publication.lost) == ((), (0, 1))
    assert by_id(table) == dict.fromkeys(DOUBLED)


@pytest.mark.parametrize("reply", [StorageError("the reply was lost"), None])
def test_a_commit_whose_reply_was_lost_is_not_made_twice(table: Snapshot, reply: StorageError | None) -> None:
    commits = []

    def losing(latest: Snapshot, operation: Any, properties: dict[str, str]) -> Snapshot:
        commits.append(publishing.commit(latest, operation, properties))
        changes.add(table, reader_of({"id": [6]}))
        if reply is not None:
            raise reply
        return commits[-1]

    publication = publishing.publish(table, all_doubled(table), job_id="j", guard=always, commit=losing)
    assert (publication.version, publication.published) == (table.version + 1, (0, 1))
    assert len(commits) == 1


def test_storage_that_keeps_refusing_is_reported(table: Snapshot) -> None:
    def refusing(latest: Snapshot, operation: Any, properties: dict[str, str]) -> Snapshot:
        raise StorageError("no space left")

    with pytest.raises(StorageError, match="no space left"):
        publishing.publish(table, all_doubled(table), job_id="j", guard=always, commit=refusing)


@pytest.mark.parametrize("held", [("y",), (PROOF,), ("y", PROOF)])
def test_rows_added_elsewhere_with_some_of_the_columns_take_their_file(table: Snapshot, held: tuple[str, ...]) -> None:
    nulls = {name: pa.nulls(2, table.full_schema.field(name).type) for name in held}
    lance.dataset(table.uri, storage_options=table.storage_options).insert(
        pa.table({"id": [6, 7], "text": ["f", "g"], **nulls})
    )
    latest = table.latest()
    publication = latest.publish(all_doubled(latest), job_id="j", guard=always)
    assert sorted(publication.published) == [0, 1, 2]
    assert by_id(table) == {**DOUBLED, 6: 12, 7: 14}
    after = table.latest()
    after.dataset.validate()
    assert [row for batch in after.scan(["id"], row_id=True) for row in batch["_rowid"].to_pylist()] == list(range(7))
    assert by_id(compact(table)) == {**DOUBLED, 6: 12, 7: 14}


@pytest.mark.parametrize("write", [*BEARABLE[:3], compact])
def test_such_rows_bear_other_writers_too(table: Snapshot, write: Callable[[Snapshot], Any]) -> None:
    lance.dataset(table.uri, storage_options=table.storage_options).insert(
        pa.table({"id": [6, 7], "text": ["f", "g"], "y": pa.nulls(2, pa.int64())})
    )
    latest = table.latest()
    latest.publish([doubled(latest, 2)], job_id="j", guard=once(lambda: write(table)))
    assert {key: value for key, value in by_id(table).items() if value is not None}.items() <= {6: 12, 7: 14}.items()
    table.latest().dataset.validate()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_every_file_format_of_lance_takes_nested_columns(store: TableStore, version: str) -> None:
    lance.write_dataset(
        pa.table({"id": [1, 2]}),
        store.path_of("t"),
        storage_options=store.storage_options,
        data_storage_version=version,
    )
    nested = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    plain = store.open("t")
    table = plain.declare([(pa.field("y", nested), declaration(plain))], PROOF)
    lance.dataset(table.uri, storage_options=table.storage_options).insert(
        pa.table({"id": [3], "y": pa.array([{"a": 0, "b": []}], nested)})
    )
    latest = table.latest()
    for fragment in latest.fragments:
        value = pa.array([{"a": 1, "b": ["x"]}] * fragment.physical_rows, nested)
        proof = pa.array([b"p" * 16] * fragment.physical_rows, pa.binary(16))
        batch = pa.record_batch({"y": value, PROOF: proof})
        file = latest.write_column_file(fragment.id, batch.schema, [batch])
        assert latest.publish([file], job_id="j", guard=always).published == (fragment.id,)
    assert by_id(table) == {key: {"a": 1, "b": ["x"]} for key in (1, 2, 3)}
    assert by_id(compact(table)) == {key: {"a": 1, "b": ["x"]} for key in (1, 2, 3)}
    assert files_of(table.latest(), "y")[0]


def test_updated_rows_carry_value_and_proof_along(table: Snapshot) -> None:
    table.publish(all_doubled(table), job_id="j", guard=always)
    latest = changes.update(table, {"id": "id + 100"}, "id = 2").snapshot
    moved = [row for batch in latest.scan(["id", "y", PROOF]) for row in batch.to_pylist() if row["id"] == 102]
    assert moved == [{"id": 102, "y": 4, PROOF: b"p" * 16}]


def test_publishers_and_writers_at_once_lose_nothing(store: TableStore) -> None:
    table = two_fragments(store)

    def publish(fragment_id: int) -> None:
        for _ in range(5):
            table.publish([doubled(table, fragment_id)], job_id=f"job {fragment_id}", guard=always)

    def write() -> None:
        for number in range(100, 105):
            changes.add(table, reader_of({"id": [number]}))
            changes.update(table, {"text": "'touched'"}, f"id = {number}")

    threads = [threading.Thread(target=publish, args=(one,)) for one in (0, 1)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert by_id(table) == {**DOUBLED, **dict.fromkeys(range(100, 105))}
    table.latest().dataset.validate()
