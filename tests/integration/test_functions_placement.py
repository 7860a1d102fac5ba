"""What a Function asks of its GPU class, and which image it names: held against the class when it is registered and when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql import Database, col, connect, function
from lancegpu_sql.errors import InvalidFunction, InvalidInput

CLASSES = """
gpu_classes:
  - {name: small, gpu_memory_bytes: 16GiB, allowed_images: [good.io/ml/], local: {simulated: 1}}
  - {name: large, gpu_memory_bytes: 80GiB, backup_classes: [small], local: {simulated: 1}}
"""


@function(gpu=True, gpu_class="large", gpu_memory_bytes="40GiB")
def scored(n: int) -> int:
    return n


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    (tmp_path / "classes.yaml").write_text(CLASSES)
    with connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", runtime_folder=tmp_path / "run") as opened:
        opened.create_table("numbers", pa.table({"n": [1]})).add_columns({"score": scored(n=col("n"))})
        yield opened


def test_a_refresh_on_a_class_with_too_little_memory_is_refused_before_it_is_a_job(db: Database) -> None:
    with pytest.raises(InvalidInput, match=r"40 GiB of memory(?s:.)*'small' have 16 GiB"):
        db.open_table("numbers").refresh_column("score", gpu_class="small")
    assert db.list_jobs() == []


def test_a_class_that_shrinks_is_told_to_whoever_applies_it(db: Database, tmp_path: Path) -> None:
    (tmp_path / "classes.yaml").write_text(CLASSES.replace("80GiB", "24GiB"))
    changes = db.apply_gpu_classes(tmp_path / "classes.yaml")
    assert "warning: Function scored (it computes numbers.score) needs GPUs with 40 GiB" in "\n".join(changes)


def test_a_function_does_not_move_to_a_class_that_is_too_small(db: Database) -> None:
    with pytest.raises(InvalidFunction, match=r"name another class \(large\)"):
        db.alter_function("scored", gpu_class="small")


def test_an_image_is_one_that_the_class_allows(db: Database) -> None:
    options = {"gpu_class": "small", "gpu_memory_bytes": None}
    assert (
        db.create_function(scored, "image_1", image="good.io/ml/torch:2", **options).placement.image
        == "good.io/ml/torch:2"
    )
    with pytest.raises(InvalidFunction, match=r"'small' allows good\.io/ml/"):
        db.create_function(scored, "image_2", image="bad.io/torch:2", **options)
    with pytest.raises(InvalidFunction, match="is no image"):
        db.create_function(scored, "image_3", image="Bad Image", **options)
