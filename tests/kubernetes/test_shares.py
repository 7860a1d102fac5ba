"""Who gets the GPUs of a cluster: the oldest first, each job its share, other processes' requests counted in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from agents import eventually
from cluster.process_kubelet.simulation import SIMULATE
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from placement_suite import Asked, request_for
from refresh_kit import PATIENCE_SECONDS, by_key, open_database, reference

import lancegpu_sql as lg
from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database, JobHandle, Table
from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement import GpuClass, Ready, Waiting, Wanted
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

STAND_IN = str(Path(__file__).parent / "stand_in_worker.py")
CLASSES = f"""
gpu_classes:
  - {{name: l4, node_selector: {{pool: l4}}}}
  - {{name: broken, node_selector: {{pool: l4}}, annotations: {{{SIMULATE}: image-error}}}}
"""

Place = Callable[..., KubernetesPlacement]


@pytest.fixture
def place(cluster: RunningCluster, namespace: str) -> Iterator[Place]:
    """Make a placement in the test's own namespace; each is to the others as one of another process."""
    made: list[KubernetesPlacement] = []

    def make(**more: Any) -> KubernetesPlacement:
        options = {"kubeconfig": str(cluster.kubeconfig), "image": "worker:test", **more}
        made.append(KubernetesPlacement(namespace, database="a test's", **options))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture(autouse=True)
def _two_gpus(process_node: AddProcessNode) -> None:
    process_node("l4-1", gpus=2, labels={"pool": "l4"})


@pytest.fixture
def db(place: Place, tmp_path: Path) -> Iterator[Database]:
    (tmp_path / "classes.yaml").write_text(CLASSES)
    placement = place(image_pull_grace_seconds=0.5)
    with open_database(
        tmp_path, gpu_classes=tmp_path / "classes.yaml", placement=placement, max_workers=None
    ) as database:
        yield database


def taking_time(folder: Path, name: str, gpu_class: str = "l4") -> Any:
    """A GPU Function that takes its time until the file `hurry` is there."""
    hurry = str(folder / "hurry")

    @lg.function(name=name, gpu=True, gpu_class=gpu_class)
    def take_time(key: int, x: int | None) -> int | None:
        if not Path(hurry).exists():
            time.sleep(0.02)
        return None if x is None or x % 7 == 0 else x * 10

    return take_time


def make_table(db: Database, name: str, function: Any, rows: int = 3000) -> Table:
    numbers = pa.array(range(rows), pa.int64())
    table = db.create_table(name, pa.table({"key": numbers, "x": numbers}))
    table.add_columns({"y": function(key=col("key"), x=col("x"))})
    return table


def kinds(job: JobHandle) -> list[str]:
    return [event.kind for event in job.events()]


def test_three_jobs_share_two_gpus_oldest_first(db: Database, tmp_path: Path):
    tables = [make_table(db, name, taking_time(tmp_path, f"slow_{name}")) for name in ("first", "second", "third")]

    def begin(table: Table) -> JobHandle:
        return table.refresh_column_async("y", batch_size=5, part_target_seconds=0.5)

    first = begin(tables[0])
    eventually(lambda: "worker_added" in kinds(first))  # alone, it takes both
    second = begin(tables[1])
    eventually(lambda: "worker ready" in kinds(second))  # it gave one back
    third = begin(tables[2])
    eventually(third.status, lambda state: state is JobState.WAITING)
    eventually(lambda: third.waiting_on.message if third.waiting_on else "", lambda said: "in use" in said)
    assert (first.status(), second.status()) == (JobState.RUNNING, JobState.RUNNING)
    (tmp_path / "hurry").touch()
    for job, table in zip((first, second, third), tables, strict=True):
        job.wait(PATIENCE_SECONDS)
        assert by_key(table) == {key: reference(key) for key in range(3000)}
    ready = [min(event.id for event in job.events() if event.kind == "worker ready") for job in (first, second, third)]
    assert ready == sorted(ready)


def test_a_job_whose_image_cannot_be_pulled_for_long_fails_with_the_registrys_message(db: Database, tmp_path: Path):
    table = make_table(db, "broken", taking_time(tmp_path, "never", "broken"), rows=5)
    job = table.refresh_column_async("y")
    with pytest.raises(InvalidPlacement, match="failed to pull and unpack image"):
        job.wait(PATIENCE_SECONDS)
    assert job.status() is JobState.FAILED
    assert "waiting" in kinds(job)


L4 = GpuClass(name="l4", node_selector={"pool": "l4"})


def test_a_worker_is_wanted_by_another_processs_request(place: Place):
    mine = [Asked(one, request_for(L4)) for one in [place(python=STAND_IN)] * 2]
    for asked in mine:
        asked.next(Ready)
    other = Asked(place(python=STAND_IN), request_for(L4))
    mine[1].next(Wanted)  # the youngest
    assert not mine[0].ticket.wanted
    mine[1].release()
    other.next(Ready)


def test_of_two_processes_that_ask_at_once_a_classs_limit_lets_the_older_have_its_worker(place: Place):
    one = GpuClass(name="l4", node_selector={"pool": "l4"}, max_workers=1)
    places = [place(python=STAND_IN), place(python=STAND_IN)]
    for placement in places:
        placement.free_workers(one, 1, 1)  # opens it
    older, younger = (Asked(placement, request_for(one)) for placement in places)
    older.next(Ready)
    while younger.next(Waiting).reason != "max_workers":
        pass
    older.release()
    younger.next(Ready)


def test_a_classs_limit_counts_the_workers_of_other_processes(place: Place):
    one = GpuClass(name="l4", node_selector={"pool": "l4"}, max_workers=1)
    mine = Asked(place(python=STAND_IN), request_for(one))
    mine.next(Ready)
    other = Asked(place(python=STAND_IN), request_for(one))
    assert other.next(Waiting).reason == "max_workers"
    mine.release()
    other.next(Ready)
