"""Workers that are started before anybody asks for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, need_for
from refresh_kit import PATIENCE_SECONDS, open_database, short_folder

from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.database import Database
from lancegpu_sql.database.query_runs import QueryRuns
from lancegpu_sql.errors import Cancelled, LoadFailed
from lancegpu_sql.placement import LocalPlacement, PlacementEvent, Ready
from lancegpu_sql.refresh.need import query_need
from lancegpu_sql.workers import WorkerNeed, WorkerPool

CLASSES = """
gpu_classes:
  - {name: one, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 1}}
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    placement = LocalPlacement(tmp_path / "run")
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()
    placement.close()


def wait_until_idle(pool: WorkerPool, need: WorkerNeed) -> None:
    for _ in range(int(PATIENCE_SECONDS / 0.05)):
        if pool.warm_workers(need):
            return
        threading.Event().wait(0.05)
    raise AssertionError("no worker came to stand idle")


def test_the_next_lease_takes_the_worker_and_hears_of_its_start(pool: WorkerPool):
    need = need_for(worker_functions.double)
    heard: list[PlacementEvent] = []
    pool.start_ahead(need)
    lease = pool.lease(need, heard.append, NO_ONE)
    assert isinstance(heard[-1], Ready)
    assert lease.started_seconds > 0
    lease.release()
    assert pool.warm_workers(need) == 1


def test_one_is_started_however_often_it_is_expected(pool: WorkerPool):
    need = need_for(worker_functions.double)
    for _ in range(3):
        pool.start_ahead(need)
    wait_until_idle(pool, need)
    pool.start_ahead(need)
    assert pool.warm_workers(need) == 1


def test_two_leases_are_two_workers_all_the_same(pool: WorkerPool):
    need = need_for(worker_functions.double)
    pool.start_ahead(need)
    one, two = (pool.lease(need, lambda _: None, NO_ONE) for _ in range(2))
    assert one.worker_name != two.worker_name


def test_one_that_cannot_be_loaded_tells_whoever_asks(pool: WorkerPool):
    need = need_for(worker_functions.FailsToLoad)
    pool.start_ahead(need)
    with pytest.raises(LoadFailed):
        pool.lease(need, lambda _: None, NO_ONE)


def test_a_lease_that_is_cancelled_leaves_the_worker_for_the_next(pool: WorkerPool, tmp_path: Path):
    told = tmp_path / "told"
    need = need_for(worker_functions.LoadsWhenTold, bound={"path": str(told)})
    cancelled = threading.Event()
    pool.start_ahead(need)
    with pytest.raises(Cancelled):
        pool.lease(need, lambda _: cancelled.set(), cancelled)
    told.touch()
    wait_until_idle(pool, need)


def test_closing_the_pool_ends_one_that_is_being_started(pool: WorkerPool):
    before = set(threading.enumerate())
    pool.start_ahead(need_for(worker_functions.double))
    pool.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "worker-ahead"]


def test_a_spare_worker_stands_idle_once_it_serves(pool: WorkerPool):
    need, over = need_for(worker_functions.double), threading.Event()
    lease = pool.lease(need, lambda _: None, NO_ONE)
    spare = pool.start_spare(need, over.set)
    assert spare is not None
    assert over.wait(PATIENCE_SECONDS)
    assert spare.is_over
    assert pool.warm_workers(need) == 1
    lease.release()
    assert pool.warm_workers(need) == 2


def test_a_spare_worker_that_cannot_be_loaded_says_so(pool: WorkerPool):
    over = threading.Event()
    spare = pool.start_spare(need_for(worker_functions.FailsToLoad), over.set)
    assert spare is not None
    assert over.wait(PATIENCE_SECONDS)
    assert isinstance(spare.error, LoadFailed)


def test_no_spare_worker_is_started_where_idle_ones_are_not_kept(tmp_path: Path):
    placement = LocalPlacement(tmp_path / "run")
    pool = WorkerPool(placement, worker_idle_seconds=0)
    assert pool.start_spare(need_for(worker_functions.double), lambda: None) is None
    pool.close()
    placement.close()


def size(text: str) -> int:
    return len(text)


@pytest.fixture
def db() -> Iterator[Database]:
    with short_folder() as folder:
        classes = folder / "classes.yaml"
        classes.write_text(CLASSES)
        with open_database(folder, gpu_classes=classes) as db:
            yield db


def test_a_query_starts_workers_while_it_is_planned_and_none_that_would_hold_a_gpu(db: Database):
    db.create_table("docs", pa.table({"text": ["a"]}))
    db.create_function(size)
    db.create_function(size, "on_gpu", gpu=True, gpu_class="one")
    db.create_function(size, "unused")
    db.sql("EXPLAIN SELECT unused(text) FROM docs")
    db.sql("SELECT size(text), on_gpu(text) FROM docs")
    services = db._services
    version = QueryRuns(services).known()["size"]
    need = query_need(services.catalog, services.settings, version, JobRecord.new("query").id, "a test")
    wait_until_idle(services.pool, need)
    assert len(services.pool._idle) == 1
