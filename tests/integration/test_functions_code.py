"""Modules of the user's own that travel with a Function."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql import Database, connect
from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.definition import Definition
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.local_modules import local_modules

PROGRAM = """
from lancegpu_sql import function
from words.polite import greeting

@function(code=("words",))
def greeted(name: str) -> str:
    from pathlib import Path
    import words
    return f"{greeting()} {name} from {Path(words.__file__).parents[1].name.partition('-')[0]}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file of Functions, and a package beside it with a module and a text."""
    package = tmp_path / "project" / "words"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "polite.py").write_text(
        "from pathlib import Path\n\n\ndef greeting():\n    return (Path(__file__).parent / 'word.txt').read_text()\n"
    )
    (package / "word.txt").write_text("hello")
    (package.parent / "program.py").write_text(PROGRAM)
    return package.parent / "program.py"


def defined(program: Path) -> Definition:
    (definition,) = inspect_file(program)
    return definition


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with connect(tmp_path / "db", runtime_folder=tmp_path / "run") as opened:
        opened.create_table("people", pa.table({"name": ["Ada"]}))
        yield opened


def test_modules_that_travel_run_where_they_are_not_on_the_disk(program: Path, db: Database) -> None:
    db.register_file(program)
    shutil.rmtree(program.parent)
    assert db.sql("SELECT greeted(name) FROM people").fetchall() == [("hello Ada from code",)]


def test_what_they_do_is_what_was_registered_whatever_the_disk_says_later(program: Path, db: Database) -> None:
    db.register_file(program)
    (program.parent / "words" / "word.txt").write_text("go away,")
    assert db.sql("SELECT greeted(name) FROM people").fetchall() == [("hello Ada from code",)]


def test_each_file_of_theirs_is_part_of_the_version(program: Path, db: Database) -> None:
    first = db.register_file(program)
    assert db.register_file(program) == first
    (program.parent / "words" / "word.txt").write_text("hi")
    assert [version.version for version in db.register_file(program)] == [2]


def test_where_they_stand_and_what_python_made_of_them_is_no_part_of_it(program: Path, tmp_path: Path) -> None:
    before = defined(program)
    subprocess.run([sys.executable, "-m", "compileall", "-q", program.parent], check=True)
    moved = shutil.copytree(program.parent, tmp_path / "elsewhere")
    assert defined(moved / program.name).version.digest == before.version.digest


def test_nothing_is_left_of_them_when_their_database_is_closed(program: Path, tmp_path: Path) -> None:
    with connect(tmp_path / "db", runtime_folder=tmp_path / "run") as db:
        db.create_table("people", pa.table({"name": ["Ada"]}))
        db.register_file(program)
        db.sql("SELECT greeted(name) FROM people").fetchall()
        assert list((tmp_path / "run").rglob("polite.py"))
    assert not list((tmp_path / "run").rglob("polite.py"))


def test_a_module_that_is_not_there_is_named(program: Path) -> None:
    program.write_text(PROGRAM.replace('("words",)', '("words", "wards")'))
    with pytest.raises(InvalidFunction, match="no module 'wards' of files here"):
        inspect_file(program)


def test_a_compiled_module_belongs_into_a_wheel(program: Path) -> None:
    (program.parent / "words" / "fast.so").write_bytes(b"\x7fELF")
    with pytest.raises(InvalidFunction, match="build a wheel"):
        inspect_file(program)


def test_large_files_do_not_travel(program: Path) -> None:
    with (program.parent / "words" / "model.bin").open("wb") as file:
        os.truncate(file.fileno(), 33 * 1024**2)
    with pytest.raises(InvalidFunction, match="more than 32 MiB"):
        inspect_file(program)


def test_a_file_whose_name_is_no_text_does_not_travel(program: Path) -> None:
    Path(os.fsdecode(bytes(program.parent / "words") + b"/\xff.txt")).touch()
    with pytest.raises(InvalidFunction, match=r"ff.txt. in words is no UTF-8"):
        defined(program)


def test_a_file_that_cannot_be_read_is_named(program: Path) -> None:
    # Of all files that are not to be read, also by root: its address is that of nothing.
    (program.parent / "words" / "memory").symlink_to("/proc/self/mem")
    with pytest.raises(InvalidFunction, match="memory in words cannot be read"):
        defined(program)


def test_equal_files_make_equal_archives() -> None:
    assert local_modules(["wheels"]).archive() == local_modules(["wheels"]).archive()
