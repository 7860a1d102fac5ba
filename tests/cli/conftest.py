"""A database to look at from the command line, and a way to run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refresh_kit import short_folder

import lancegpu_sql as lg
from lancegpu_sql import col, function
from lancegpu_sql.cli import main

CLASSES = """\
gpu_classes:
  - name: one
    gpu_model: Pretended 1
    gpu_memory_bytes: 24GiB
    local: {simulated: 1}
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it printed where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Run = Callable[..., Ran]


def failing_function() -> Any:
    """A text's size; one text is too much for it."""

    @function
    def text_size(text: str | None) -> int | None:
        if text == "boom":
            raise ValueError("that is no text for me")
        print("measured", text)
        return None if text is None else len(text)

    return text_size


@pytest.fixture(scope="session")
def shop() -> Iterator[Path]:
    """A database: a table with a computed column that has been refreshed, one that fails, one that is empty."""
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        with lg.connect(
            folder / "db", gpu_classes=folder / "classes.yaml", runtime_folder=folder / "run", progress="quiet"
        ) as db:
            for name, texts in {"reviews": ["good", "bad", None], "bad_ones": ["boom"], "new_ones": ["a"]}.items():
                db.create_table(name, pa.table({"text": texts})).add_columns(
                    {"size": failing_function()(text=col("text"))}
                )
            db.open_table("reviews").refresh_column("size")
            db.open_table("new_ones").set_schedule("size", "every 10 minutes")
            db.create_materialized_view("long_ones", "SELECT text FROM reviews", schedule="every 10 minutes")
            with pytest.raises(lg.errors.RowFailed):
                db.open_table("bad_ones").refresh_column("size")
        yield folder / "db"


@pytest.fixture
def run(shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command on the shop, in this process."""
    monkeypatch.setenv("LANCEGPU_DB", str(shop))
    monkeypatch.setenv("LANCEGPU_RUNTIME_FOLDER", str(shop.parent / "run"))

    def run_command(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(arguments)
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run_command
