"""The catalog on disk: whole, private, shared by processes, and honest when it cannot be used."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from lancegpu_sql.catalog import schema
from lancegpu_sql.catalog.migrations import history, version_1
from lancegpu_sql.catalog.models import (
    AgentRecord,
    EventDraft,
    FunctionPlacement,
    FunctionVersion,
    GpuClassRecord,
    JobRecord,
    JobState,
    Parameter,
    ProcessIdentity,
    Progress,
    WaitingOn,
    utc_now,
)
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import AlreadyExists, CatalogError, Conflict, FunctionNotFound, InvalidInput, JobNotFound


@dataclass(frozen=True)
class Place:
    """A catalog's place, and the id of its database where several catalogs are there."""

    url: str
    database: str = ""

    def open(self) -> Catalog:
        return Catalog.open(self.url, database=self.database)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop" / "catalog.sqlite"


@pytest.fixture
def in_file(path: Path) -> Iterator[Catalog]:
    """A catalog in a SQLite file."""
    with Catalog.open(path) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, path: Path) -> Place:
    """Where a catalog may be: a new file, or a new database's schema on a PostgreSQL server."""
    if request.param == "sqlite":
        return Place(str(path))
    return Place(request.getfixturevalue("postgresql_server").url(), uuid.uuid4().hex)


@pytest.fixture
def catalog(place: Place) -> Iterator[Catalog]:
    with place.open() as opened:
        yield opened


def version(digest: str = "a" * 32, name: str = "sentiment", **fields: Any) -> FunctionVersion:
    return FunctionVersion(
        name=name,
        version=0,
        digest=digest,
        parameters=(Parameter(name="text", type="utf8", nullable=True),),
        output_type="double",
        output_nullable=True,
        calling="row",
        env={"A": "1"},
        python_version="3.11",
        created_at=utc_now(),
        placement=FunctionPlacement(gpu=True, gpu_class="l4"),
    ).model_copy(update=fields)


# --- Functions


def test_a_function_comes_back_as_it_was_kept(catalog: Catalog) -> None:
    kept = catalog.add_function(version(), b"payload")
    assert kept == version(version=1, created_at=kept.created_at)
    assert catalog.function("sentiment") == kept
    assert catalog.payload("sentiment", 1) == b"payload"


def test_another_digest_is_the_next_version(catalog: Catalog) -> None:
    numbers = [catalog.add_function(version(digest * 32), b"").version for digest in "abc"]
    assert numbers == [1, 2, 3]
    assert [found.version for found in catalog.function_versions("sentiment")] == [1, 2, 3]
    assert catalog.function("sentiment").version == 3
    assert catalog.function("sentiment", 2).digest == "b" * 32


def test_the_same_digest_is_the_same_version(catalog: Catalog) -> None:
    first = catalog.add_function(version(), b"first")
    catalog.add_function(version("b" * 32), b"")
    again = catalog.add_function(version(created_at=utc_now()), b"second")
    assert (again.version, again.created_at, catalog.payload("sentiment", 1)) == (1, first.created_at, b"first")


def test_a_name_is_found_in_any_case_and_keeps_its_first_spelling(catalog: Catalog) -> None:
    catalog.add_function(version(name="Größe"), b"")
    catalog.add_function(version("b" * 32, name="GRÖSSE"), b"")
    assert [(found.name, found.version) for found in catalog.functions()] == [("Größe", 2)]


def test_the_size_of_workers_is_kept_for_each_version(catalog: Catalog) -> None:
    for digest in "ab":
        catalog.add_function(version(digest * 32), b"")
    catalog.keep_cpu_rung("Sentiment", 2, "medium")
    assert [catalog.cpu_rung("sentiment", number) for number in (1, 2, 3)] == [None, "medium", None]


def test_placement_belongs_to_all_versions(catalog: Catalog) -> None:
    catalog.add_function(version(), b"")
    catalog.add_function(version("b" * 32), b"")
    catalog.set_function_placement("SENTIMENT", FunctionPlacement(cpus=2))
    assert [found.placement.cpus for found in catalog.function_versions("sentiment")] == [2, 2]


def test_a_number_is_never_given_twice(catalog: Catalog) -> None:
    catalog.add_function(version(), b"")
    catalog.add_function(version("b" * 32), b"")
    catalog.drop_function("sentiment")
    assert catalog.functions() == []
    assert catalog.add_function(version("c" * 32), b"").version == 3


def test_one_version_can_be_dropped(catalog: Catalog) -> None:
    catalog.add_function(version(), b"")
    catalog.add_function(version("b" * 32), b"")
    catalog.drop_function("sentiment", 1)
    assert catalog.find_function("sentiment", "a" * 32) is None
    assert catalog.find_function("sentiment", "b" * 32) == catalog.function("sentiment")


def test_an_unknown_function_is_told_from_an_unknown_version(catalog: Catalog) -> None:
    catalog.add_function(version(), b"")
    with pytest.raises(FunctionNotFound, match=r"No Function named 'embed' is registered .* It has sentiment\."):
        catalog.function("embed")
    with pytest.raises(FunctionNotFound, match="no version 7; it has 1"):
        catalog.payload("sentiment", 7)
    with pytest.raises(FunctionNotFound):
        catalog.drop_function("embed")
    with pytest.raises(FunctionNotFound):
        catalog.set_function_placement("embed", FunctionPlacement())


# --- GPU classes and proofs


def test_gpu_classes_are_replaced_as_a_whole_and_keep_their_order(catalog: Catalog) -> None:
    records = [GpuClassRecord(name=name, spec={"max": None}, updated_at=utc_now()) for name in ("l4", "a100")]
    catalog.replace_gpu_classes(records)
    assert catalog.gpu_classes() == records
    catalog.replace_gpu_classes(records[1:])
    assert catalog.gpu_classes() == records[1:]


def test_proofs_are_sets_by_column(catalog: Catalog) -> None:
    catalog.add_proofs("t.a", [b"1", b"2"])
    catalog.add_proofs("t.a", [b"2", b"3"])
    catalog.add_proofs("t.b", [b"1"])
    catalog.drop_proofs("t.a", keep={b"3", b"9"})
    assert (catalog.proven("t.a"), catalog.proven("t.b"), catalog.proven("t.c")) == ({b"3"}, {b"1"}, set())


# --- jobs and events


def test_proofs_are_forgotten_by_what_their_keys_begin_with(catalog: Catalog) -> None:
    for key in ("a/y/1", "a/y/2", "a/z/1", "a_b/y/1", "ab/y/1"):
        catalog.add_proofs(key, [b"0" * 16])
    catalog.drop_proofs_under("a/y/", keep_key="a/y/2")
    catalog.drop_proofs_under("a_b/")
    assert [bool(catalog.proven(key)) for key in ("a/y/1", "a/y/2", "a/z/1", "a_b/y/1", "ab/y/1")] == [
        False,
        True,
        True,
        False,
        True,
    ]


def test_a_job_comes_back_as_it_was_kept(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column", table="t", columns=["a", "b"], request={"where": "x > 1"}).model_copy(
        update={
            "state": JobState.WAITING,
            "waiting_on": WaitingOn(gpu_class="l4", since=utc_now(), reason="in_use", message="all taken"),
            "progress": Progress(phase="waiting"),
            "owner": ProcessIdentity.current(),
            "started_at": utc_now(),
            "timings": {"workers": {}},
        }
    )
    catalog.add_job(job)
    assert catalog.job(job.id) == job


def test_jobs_are_listed_newest_first_by_table_and_state(catalog: Catalog) -> None:
    jobs = [JobRecord.new("refresh_column", table=table) for table in ("t", "u", "t")]
    for job in jobs:
        catalog.add_job(job)
    catalog.update_job(jobs[0].id, state=JobState.RUNNING)
    assert [job.id for job in catalog.jobs()] == [job.id for job in reversed(jobs)]
    assert [job.id for job in catalog.jobs(table="t", states=[JobState.QUEUED])] == [jobs[2].id]
    assert len(catalog.jobs(limit=2)) == 2


def test_a_change_and_its_event_are_kept_together_or_not_at_all(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column")
    catalog.add_job(job, [EventDraft(kind="queued", message="It was asked for.")])
    with pytest.raises(Conflict, match="is queued, not running"):
        catalog.update_job(
            job.id,
            expected_states=[JobState.RUNNING],
            events=[EventDraft(kind="finished", message="")],
            state=JobState.FINISHED,
        )
    assert catalog.job(job.id).state is JobState.QUEUED
    assert [event.kind for event in catalog.events(job_id=job.id)] == ["queued"]


def test_an_event_without_a_change_is_kept(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column")
    catalog.add_job(job)
    catalog.update_job(job.id, events=[EventDraft(kind="blocked", message="Another one runs.")])
    assert [event.kind for event in catalog.events(job_id=job.id)] == ["blocked"]


def test_a_job_is_changed_only_by_its_owner(catalog: Catalog) -> None:
    owner = ProcessIdentity.current()
    job = JobRecord.new("refresh_column").model_copy(update={"owner": owner})
    catalog.add_job(job)
    catalog.update_job(job.id, expected_owner=owner, state=JobState.RUNNING)
    with pytest.raises(Conflict, match=f"belongs to process {owner.pid}"):
        catalog.update_job(job.id, expected_owner=owner.model_copy(update={"pid": 1}), state=JobState.FAILED)


def test_a_field_can_be_emptied(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column").model_copy(update={"started_at": utc_now(), "result": {"rows": 1}})
    catalog.add_job(job)
    catalog.update_job(job.id, started_at=None, result=None)
    assert (catalog.job(job.id).started_at, catalog.job(job.id).result) == (None, None)


def test_a_job_is_added_once(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column")
    catalog.add_job(job)
    with pytest.raises(AlreadyExists):
        catalog.add_job(job)


def test_a_cancellation_is_asked_for_once_and_seen(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column")
    catalog.add_job(job)
    assert catalog.cancels_requested([job.id]) == set()
    catalog.request_cancel(job.id)
    catalog.request_cancel(job.id)
    assert catalog.cancels_requested([job.id, "other"]) == {job.id}
    assert [event.kind for event in catalog.events(job_id=job.id)] == ["cancel_requested"]


def test_a_pause_is_asked_for_once_and_seen(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column")
    catalog.add_job(job)
    catalog.request_pause(job.id)
    catalog.request_pause(job.id)
    assert catalog.pauses_requested([job.id, "other"]) == {job.id}
    assert [event.kind for event in catalog.events(job_id=job.id)] == ["pause_requested"]


def test_a_sign_of_life_counts_for_the_present_run_only(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column").model_copy(update={"state": JobState.RUNNING, "lease": "second"})
    catalog.add_job(job)
    assert catalog.beat_jobs({job.id: "second"}) == set()
    assert catalog.beat_jobs({job.id: "first"}) == {job.id}
    assert catalog.heartbeats() == {job.id: ("second", 1)}


def test_a_job_that_gave_a_sign_of_life_meanwhile_is_not_taken(catalog: Catalog) -> None:
    job = JobRecord.new("refresh_column").model_copy(update={"state": JobState.RUNNING, "lease": "first"})
    catalog.add_job(job)
    catalog.beat_jobs({job.id: "first"})
    with pytest.raises(Conflict, match="sign of life"):
        catalog.update_job(job.id, expected_heartbeat=0, state=JobState.QUEUED)
    with pytest.raises(Conflict, match="taken again"):
        catalog.update_job(job.id, expected_lease="another", state=JobState.QUEUED)
    assert catalog.update_job(job.id, expected_heartbeat=1, expected_lease="first", state=JobState.QUEUED)


def test_agents_are_known_by_their_signs_of_life(catalog: Catalog) -> None:
    now = utc_now()
    agent = AgentRecord(
        id="a",
        identity=ProcessIdentity.current(),
        kinds=("x",),
        concurrency=3,
        lease_seconds=30,
        started_at=now,
        seen_at=now,
    )
    catalog.beat_agent(agent)
    catalog.beat_agent(agent)
    (found,) = catalog.agents()
    assert (found.heartbeat, found.kinds, found.identity) == (2, ("x",), agent.identity)
    assert abs(found.silent_seconds) < 5
    catalog.remove_agents({"a": 1})
    assert catalog.agents() != []
    catalog.remove_agents({"a": 2})
    assert catalog.agents() == []


def test_old_events_of_no_job_are_forgotten(catalog: Catalog) -> None:
    catalog.add_event("gpu classes", "applied", "")
    catalog.prune_events(utc_now() - timedelta(days=1))
    assert len(catalog.events()) == 1
    catalog.prune_events(utc_now() + timedelta(seconds=1))
    assert catalog.events() == []


def test_an_unknown_job_is_said_to_be_unknown(catalog: Catalog) -> None:
    for ask in (catalog.job, catalog.request_cancel, catalog.update_job):
        with pytest.raises(JobNotFound):
            ask("0193")
    with pytest.raises(JobNotFound):
        catalog.add_event("job", "running", "", job_id="0193")


def test_events_are_read_by_subject_and_from_a_place_on(catalog: Catalog) -> None:
    for number in range(3):
        catalog.add_event("function sentiment", "placement", f"change {number}", {"number": number})
    catalog.add_event("gpu classes", "applied", "")
    first, *rest = catalog.events(subject="function sentiment")
    assert [event.detail["number"] for event in rest] == [1, 2]
    assert catalog.events(subject="function sentiment", after_id=first.id) == rest


def test_a_job_is_found_by_the_beginning_or_the_end_of_its_id(catalog: Catalog) -> None:
    for job_id in ("0193-aaaa-1111", "0193-bbbb-2222"):
        catalog.add_job(JobRecord(id=job_id, kind="refresh_column", created_at=utc_now()))
    assert [catalog.find_job(part).id[-4:] for part in ("0193-aaaa-1111", "2222", "0193-b")] == ["1111", "2222", "2222"]
    with pytest.raises(Conflict, match="0193-aaaa-1111, 0193-bbbb-2222"):
        catalog.find_job("0193")
    for wrong in ("222", "", "%", "aaaa", "3333"):
        with pytest.raises(JobNotFound):
            catalog.find_job(wrong)


def test_jobs_that_ended_long_ago_are_forgotten_with_their_events(catalog: Catalog) -> None:
    ended, running = JobRecord.new("refresh_column"), JobRecord.new("refresh_column")
    for job in (ended, running):
        catalog.add_job(job, [EventDraft(kind="queued", message="")])
    catalog.update_job(ended.id, state=JobState.FINISHED, finished_at=utc_now())
    assert catalog.prune_jobs(utc_now()) == [ended.id]
    assert [job.id for job in catalog.jobs()] == [running.id]
    assert [event.job_id for event in catalog.events()] == [running.id]


def test_finished_jobs_of_a_kind_are_forgotten_but_the_newest(catalog: Catalog) -> None:
    jobs = [JobRecord.new("query") for _ in range(6)]
    other = JobRecord.new("refresh_column")
    for job in (*jobs, other):
        catalog.add_job(job, [EventDraft(kind="queued", message="")])
    for job in (*jobs[1:], other):
        catalog.update_job(job.id, state=JobState.FINISHED, finished_at=utc_now())
    assert catalog.prune_finished(["query"], keep=4) == []
    assert sorted(catalog.prune_finished(["query"], keep=3)) == [jobs[1].id, jobs[2].id]
    assert [job.id for job in catalog.jobs()] == [other.id, jobs[5].id, jobs[4].id, jobs[3].id, jobs[0].id]
    assert [job.id for job in catalog.jobs(without_finished=["query"])] == [other.id, jobs[0].id]
    assert len(catalog.events()) == 5


# --- the file


def test_the_file_and_its_folder_are_the_owners_alone(in_file: Catalog, path: Path) -> None:
    in_file.add_event("x", "y", "z")
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    assert modes == dict.fromkeys(["catalog.sqlite", "catalog.sqlite-shm", "catalog.sqlite-wal"], 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_catalog_opened_again_has_what_was_kept(path: Path) -> None:
    with Catalog.open(path) as catalog:
        catalog.add_function(version(), b"payload")
    with Catalog.open(f"sqlite:///{path}") as catalog:
        assert catalog.payload("sentiment", 1) == b"payload"


def test_migrations_make_the_tables_that_the_store_reads(path: Path, in_file: Catalog) -> None:
    migrated, described = sa.create_engine(f"sqlite:///{path}"), sa.create_engine("sqlite://")
    schema.metadata.create_all(described)
    try:
        assert _tables(migrated) == _tables(described)
    finally:
        migrated.dispose()
        described.dispose()


def _tables(engine: sa.Engine) -> dict[str, object]:
    inspector = sa.inspect(engine)
    return {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(name)],
            inspector.get_pk_constraint(name)["constrained_columns"],
            inspector.get_foreign_keys(name),
            inspector.get_indexes(name),
            inspector.get_unique_constraints(name),
        )
        for name in sorted(inspector.get_table_names())
        if name != "sqlite_sequence"
    }


def test_a_catalog_of_the_first_version_is_brought_up_to_date_and_keeps_its_jobs(path: Path) -> None:
    path.parent.mkdir()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        schema.catalog_schema.create(connection)
        connection.execute(schema.catalog_schema.insert().values(version=1))
        version_1.upgrade(connection)
        connection.execute(sa.text(JOB_OF_VERSION_1))
    engine.dispose()
    with Catalog.open(path) as catalog:
        (job,) = catalog.jobs()
        assert (job.state, job.pause_requested, job.lease) == (JobState.RUNNING, False, None)
        assert catalog.heartbeats() == {job.id: (None, 0)}
        assert catalog.agents() == []
    test_migrations_make_the_tables_that_the_store_reads(path, catalog)


JOB_OF_VERSION_1 = """
    INSERT INTO jobs (id, kind, "table", columns, request, state, created_at, cancel_requested)
    VALUES ('0193', 'refresh_column', 't', '["y"]', '{}', 'running', '2026-01-01 00:00:00.000000', 0)
"""


def test_a_newer_catalog_is_refused_and_left_as_it_is(path: Path) -> None:
    Catalog.open(path).close()
    with sqlite3.connect(path) as driver:
        driver.execute("UPDATE catalog_schema SET version = 99")
    driver.close()
    before = path.read_bytes()
    with pytest.raises(
        CatalogError, match=rf"schema version 99.*knows {history.CURRENT_VERSION}.*Upgrade lancegpu-sql"
    ):
        Catalog.open(path)
    assert path.read_bytes() == before


def test_a_catalog_knows_the_release_it_is_at(path: Path, in_file: Catalog) -> None:
    driver = sqlite3.connect(path)
    assert driver.execute("SELECT version FROM catalog_schema").fetchall() == [(history.CURRENT_VERSION,)]
    driver.close()


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "photos.sqlite"
    driver = sqlite3.connect(path)
    driver.execute("CREATE TABLE photos (id)")
    driver.close()
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="another program"):
        Catalog.open(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 100)
    with pytest.raises(CatalogError, match="not a SQLite database"):
        Catalog.open(path)
    assert path.read_text() == "remember the milk\n" * 100


def test_a_place_where_nothing_can_be_written_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"/proc/shop/catalog\.sqlite cannot be opened"):
        Catalog.open("/proc/shop/catalog.sqlite")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("")
    with pytest.raises(CatalogError, match="cannot be opened"):
        Catalog.open(tmp_path / "shop" / "catalog.sqlite")


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(CatalogError, match="neither a path nor a URL"):
        Catalog.open("://")


def test_a_driver_that_is_not_installed_is_named_and_no_password_told() -> None:
    with pytest.raises(CatalogError, match="needs the driver 'pg8000'") as caught:
        Catalog.open("postgresql+pg8000://me:secret@host/shop")
    assert "secret" not in str(caught.value)


def test_a_closed_catalog_says_so(path: Path) -> None:
    catalog = Catalog.open(path)
    catalog.close()
    with pytest.raises(CatalogError, match="was closed"):
        catalog.functions()


def test_a_lock_held_too_long_is_an_error_and_loses_nothing(path: Path) -> None:
    with Catalog.open(path, busy_timeout_seconds=0.05) as catalog:
        catalog.add_event("x", "kept", "")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogError, match="locked for too long"):
            catalog.add_event("x", "refused", "")
        assert [event.kind for event in catalog.events()] == ["kept"]
        other.close()


DAMAGE = [
    (
        "UPDATE jobs SET progress = '{'",
        lambda catalog, job: catalog.job(job.id),
        "jobs where id = .*: progress is no JSON",
    ),
    ("UPDATE jobs SET request = '[]'", lambda catalog, job: catalog.jobs(), "request must be a mapping"),
    ("UPDATE jobs SET created_at = 'x'", lambda catalog, job: catalog.jobs(), "holds what cannot be read"),
    (
        "UPDATE events SET detail = '{'",
        lambda catalog, job: catalog.events(),
        "events where id = 1 .*: detail is no JSON",
    ),
    (
        "UPDATE function_versions SET definition = '{'",
        lambda catalog, job: catalog.functions(),
        "function_key = 'f' AND version = 1 .*: definition is no JSON",
    ),
    ("UPDATE functions SET placement = '5'", lambda catalog, job: catalog.function("f"), "placement must be a mapping"),
    (
        "UPDATE gpu_classes SET spec = '{'",
        lambda catalog, job: catalog.gpu_classes(),
        "name = 'l4' .*: spec is no JSON",
    ),
]


@pytest.mark.parametrize(("damage", "look", "told"), DAMAGE, ids=[damage for damage, _, _ in DAMAGE])
def test_a_row_that_cannot_be_read_is_named(path: Path, damage: str, look: Callable[..., Any], told: str) -> None:
    with Catalog.open(path) as catalog:
        job = JobRecord.new("refresh_column")
        catalog.add_job(job, [EventDraft(kind="started", message="")])
        catalog.add_function(version(name="f"), b"")
        catalog.replace_gpu_classes([GpuClassRecord(name="l4", spec={"name": "l4"}, updated_at=utc_now())])
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute(damage)
        with pytest.raises(CatalogError, match=told):
            look(catalog, job)


@pytest.mark.parametrize(
    "ask",
    [
        lambda catalog: catalog.function("f", 10**30),
        lambda catalog: catalog.jobs(limit=10**30),
        lambda catalog: catalog.job("\ud800"),
        lambda catalog: catalog.function("\ud800"),
    ],
)
def test_what_no_database_can_hold_is_refused(catalog: Catalog, ask: Callable[[Catalog], Any]) -> None:
    with pytest.raises(InvalidInput):
        ask(catalog)


FILL_THE_DISK = """
import resource, sys
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import CatalogError

catalog = Catalog.open(sys.argv[1])
catalog.add_event("x", "kept", "")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    for number in range(10_000):
        catalog.add_event("x", "kept", "words " * 1000)
except CatalogError as error:
    print(number, error, flush=True)
"""


def test_a_full_disk_is_an_error_and_what_was_committed_is_kept(path: Path) -> None:
    script = [sys.executable, "-c", FILL_THE_DISK, str(path)]
    told = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    number, message = told.split(maxsplit=1)
    assert "What was committed is kept" in message
    with Catalog.open(path) as catalog:
        assert len(catalog.events()) == int(number) + 1


SHARE = """
import sys
import uuid
from lancegpu_sql.catalog.models import FunctionVersion, JobRecord, utc_now
from lancegpu_sql.catalog.store import Catalog

url, database, name = sys.argv[1:]
sys.stdin.read()  # all begin together
catalog = Catalog.open(url, database=database)
for number in range(25):
    common = dict(parameters=(), output_type="double", output_nullable=True, calling="row", python_version="3.11")
    for digest in (f"{name}-{number}", f"common-{number}"):
        catalog.add_function(FunctionVersion(name="f", version=0, digest=digest, created_at=utc_now(), **common), b"")
    job = JobRecord.new("refresh_column")
    catalog.add_job(job)
    catalog.update_job(job.id, state="running")
    catalog.add_event("job", "running", name, job_id=job.id)
    catalog.add_proofs("t.a", [b"common", f"{name}-{number}".encode()])
catalog.close()
"""


def test_four_processes_at_once_make_one_catalog_and_lose_nothing(place: Place) -> None:
    share = [sys.executable, "-c", SHARE, place.url, place.database]
    processes = [subprocess.Popen([*share, name], stdin=subprocess.PIPE) for name in "abcd"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0, 0]
    with place.open() as catalog:
        versions = catalog.function_versions("f")
        assert [found.version for found in versions] == list(range(1, 126))
        assert len({found.digest for found in versions}) == 125
        assert len(catalog.jobs(states=[JobState.RUNNING])) == len(catalog.events()) == 100
        assert len(catalog.proven("t.a")) == 101


FORK = """
import os, sys
from lancegpu_sql.catalog.store import Catalog

catalog = Catalog.open(sys.argv[1], database=sys.argv[2])
catalog.add_event("x", "before", "")
child = os.fork()
for number in range(50):
    catalog.add_event("x", "child" if child == 0 else "parent", "")
catalog.close()
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_second_handle_in_one_process_takes_no_lock_away(path: Path) -> None:
    def elsewhere(program: str) -> list[str]:
        told = f"from lancegpu_sql.catalog.store import Catalog; catalog = Catalog.open({str(path)!r}); {program}"
        done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
        return done.stdout.split()

    add = "catalog.add_event('x', 'kind', 'elsewhere'); catalog.close()"
    with Catalog.open(path) as first, Catalog.open(path):
        first.add_event("x", "kind", "here")
        elsewhere(add)
        elsewhere(add)
        first.add_event("x", "kind", "here")
        expected = ["here", "elsewhere", "elsewhere", "here"]
        assert [event.message for event in first.events()] == expected
        assert elsewhere("print(*(event.message for event in catalog.events()))") == expected


def test_a_fork_gives_both_sides_connections_of_their_own(place: Place) -> None:
    subprocess.run([sys.executable, "-c", FORK, place.url, place.database], check=True, timeout=60)
    with place.open() as catalog:
        kinds = [event.kind for event in catalog.events()]
    assert (kinds.count("child"), kinds.count("parent")) == (50, 50)


def test_many_threads_share_one_catalog(catalog: Catalog) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: catalog.add_function(version(f"{number:032}"), b""), range(64)))
    assert [found.version for found in catalog.function_versions("sentiment")] == list(range(1, 65))
