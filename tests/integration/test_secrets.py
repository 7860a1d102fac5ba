"""Secrets of Functions: in their workers, and nowhere else."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql import Database, col, connect, function
from lancegpu_sql.errors import EnvironmentFailed, InvalidInput, LanceGpuError

# In parts: this file travels with the Functions below, and stands in the catalog.
VALUE = "-".join(["hf", "7d1f0b8e", "secret", "of", "tests"])


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """Outside of what is searched."""
    path = tmp_path / "kept" / "token"
    path.parent.mkdir()
    path.write_text(f"{VALUE}\n")
    return path


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with connect(tmp_path / "searched" / "db", runtime_folder=tmp_path / "searched" / "run") as opened:
        opened.create_table("people", pa.table({"name": ["Ada", "Bob"]}))
        yield opened


@function
def token(name: str) -> str:
    import os

    return str(len(os.environ["HF_TOKEN"]))


@function
def telltale(name: str) -> str:
    """Tells its secret in every way there is but its result."""
    import os
    import subprocess
    import sys

    value = os.environ["HF_TOKEN"]
    print("printed", value)
    print("to stderr", value, file=sys.stderr)
    subprocess.run(["sh", "-c", 'echo "by a child $HF_TOKEN"'], check=False)
    if name == "Bob":
        raise ValueError(f"refused: {value!r}")
    return name


def processes() -> Iterator[tuple[str, bytes]]:
    """The command line and first environment of every process."""
    for folder in Path("/proc").iterdir():
        for name in ("cmdline", "environ"):
            try:
                content = (folder / name).read_bytes() if folder.name.isdigit() else b""
            except OSError:  # it ended, or is another user's
                continue
            yield f"{folder}/{name}", content


def test_a_secret_is_in_its_worker(db: Database, token_file: Path) -> None:
    db.create_function(token, secrets={"HF_TOKEN": f"file:{token_file}"})
    assert db.sql("SELECT token(name) FROM people LIMIT 1").fetchall() == [(str(len(VALUE)),)]


def test_a_secret_may_be_a_variable_of_the_process_that_starts_the_worker(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", VALUE)
    db.create_function(token, secrets={"HF_TOKEN": "env:MY_TOKEN"})
    assert db.sql("SELECT token(name) FROM people LIMIT 1").fetchall() == [(str(len(VALUE)),)]


def test_no_file_log_event_error_or_process_has_a_secret(
    db: Database, tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_TOKEN", VALUE)  # of this process's Python, not of the kernel's copy
    secrets = {"HF_TOKEN": "env:MY_TOKEN", "OTHER": f"file:{token_file}"}
    version = db.create_function(telltale, secrets=secrets)
    people = db.open_table("people")
    people.add_columns({"told": db.get_function(version.name)(name=col("name"))})
    job = people.refresh_column_async("told")
    with pytest.raises(LanceGpuError) as caught:
        job.wait()
    skipping = people.refresh_column_async("told", error_policy="skip")
    skipping.wait()
    seen = {
        "error": "".join(traceback.format_exception(caught.value)) + repr(caught.value.facts),
        "events": repr([one.events() for one in (job, skipping)]) + repr(db.list_events()),
        "record": repr([one.record for one in (job, skipping)]) + repr(db.list_functions()),
        "errors": repr([list(one.errors()) for one in (job, skipping)]) + repr(list(people.errors("told"))),
        "logs": "".join(one.log() for one in (job, skipping)) + caplog.text,
        "described": repr(db.sql("DESCRIBE FUNCTION telltale").to_arrow().to_pylist()),
        "table": repr(people.to_arrow().to_pylist()),
    }
    assert "printed ***" in seen["logs"]
    assert "by a child ***" in seen["logs"]
    assert "refused: '***'" in seen["error"]
    assert [place for place, text in seen.items() if VALUE in text] == []
    files = [path for path in (tmp_path / "searched").rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [str(path) for path in files if VALUE.encode() in path.read_bytes()] == []
    assert [place for place, content in processes() if VALUE.encode() in content] == []


def test_the_workers_of_other_functions_do_not_inherit_it(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    @function
    def sees(name: str) -> bool:
        import os

        return "MY_TOKEN" in os.environ

    monkeypatch.setenv("MY_TOKEN", VALUE)
    db.create_function(token, secrets={"HF_TOKEN": "env:MY_TOKEN", "WAY": "env:PATH"})
    db.create_function(sees)
    assert db.sql("SELECT sees(name) FROM people LIMIT 1").fetchall() == [(False,)]
    assert [place for place, content in processes() if VALUE.encode() in content] == []


def test_a_secret_that_is_not_there_fails_the_job_at_once(db: Database) -> None:
    assert "NO_SUCH_TOKEN" not in os.environ
    db.create_function(token, secrets={"HF_TOKEN": "env:NO_SUCH_TOKEN"})
    with pytest.raises(EnvironmentFailed, match=r"token version 1 cannot run(?s:.)*NO_SUCH_TOKEN is not set"):
        db.sql("SELECT token(name) FROM people").fetchall()


def test_where_secrets_may_come_from_is_the_operators_to_say(tmp_path: Path) -> None:
    with connect(tmp_path / "db", secret_sources="env:HF_*") as db:
        db.create_function(token, secrets={"HF_TOKEN": "env:HF_TOKEN"})
        with pytest.raises(InvalidInput, match="secret_sources"):
            db.alter_function("token", secrets={"HF_TOKEN": "file:/etc/shadow"})


def test_secrets_can_be_changed_without_a_new_version(db: Database, token_file: Path) -> None:
    db.create_function(token)
    altered = db.alter_function("token", secrets={"HF_TOKEN": f"file:{token_file}"})
    assert (altered.version, altered.placement.secrets) == (1, {"HF_TOKEN": f"file:{token_file}"})
