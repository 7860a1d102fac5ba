"""Whole refreshes on two nodes of which one's GPU is broken: it is named and avoided, and costs no row its value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from cluster.process_node import AddProcessNode
from placing import Place
from refresh_kit import PATIENCE_SECONDS, open_database, short_folder

import lancegpu_sql as lg
from lancegpu_sql.database import Database, Table
from lancegpu_sql.errors import RowFailed

# Broken nodes are taken first, if only just: keeping off those that failed weighs more.
CLASSES = """
gpu_classes:
  - name: l4
    node_selector: {pool: l4}
    affinity:
      nodeAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 1
            preference: {matchExpressions: [{key: state, operator: In, values: [broken]}]}
"""
ROWS = 60


@lg.function(gpu=True, gpu_class="l4")
class NodeOf:
    """Stands in for a Function on GPUs of which some are broken: the folder of a process node's pod names the node."""

    def __init__(self) -> None:
        self.node = os.environ["HOME"].split("/nodes/")[1].split("/")[0]

    def __call__(self, number: int) -> str:
        """Return the node's name."""
        if self.node.startswith("broken"):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.node


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


@pytest.fixture
def db(place: Place, folder: Path) -> Iterator[Database]:
    with open_database(folder, gpu_classes=folder / "classes.yaml", placement=place(), max_workers=2) as database:
        yield database


def table(db: Database) -> Table:
    """A table with a column that names the nodes."""
    made = db.create_table("t", pa.table({"number": range(ROWS)}))
    made.add_columns({"node": NodeOf(lg.col("number"))})
    return made


def test_a_node_with_a_broken_gpu_is_named_and_avoided_and_costs_no_row(db: Database, process_node: AddProcessNode):
    for state in ("broken", "sound"):
        process_node(f"{state}-1", gpus=1, labels={"pool": "l4", "state": state})
    made = table(db)
    job = made.refresh_column_async("node", batch_size=1, error_policy="skip")
    assert job.wait(PATIENCE_SECONDS).rows_failed == 0
    assert made.to_arrow()["node"].to_pylist() == ["sound-1"] * ROWS
    events = [(one.kind, one.message) for one in job.events()]
    (told,) = [message for kind, message in events if kind == "device_avoided"]
    assert told.startswith("broken-1")
    assert "is avoided from now on" in told
    assert sum(kind == "worker ready" and "broken-1" in message for kind, message in events) == 1
    assert len(job.errors()) == 0


def test_where_the_only_gpu_is_broken_the_refresh_fails_and_says_so(db: Database, process_node: AddProcessNode):
    process_node("broken-1", gpus=1, labels={"pool": "l4"})
    made = table(db)
    with pytest.raises(RowFailed, match="A device is at fault, not the row"):
        made.refresh_column("node", error_policy="skip", max_worker_losses=1)
    assert [one.owner for one in db.get_job(db.list_jobs()[0].id).errors()] == ["device"]
    assert made.to_arrow()["node"].null_count == ROWS
