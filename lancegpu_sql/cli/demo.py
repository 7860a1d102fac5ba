"""`demo`: the main job on this machine, on real input.

A GPU Function over some thousands of real files: registered on a GPU class, waiting for it, computed, queried, and
computed again after one file more. The class is simulated, and no GPU is used; all else is what any database does.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancegpu_sql.cli.options import settings_with
from lancegpu_sql.errors import Conflict, NotFound

if TYPE_CHECKING:
    from lancegpu_sql.database import Database, JobHandle, Table

GPU_CLASSES = """\
# The demo's GPU classes. "simulated" stands for devices that are only pretended: workers take turns on them as they would
# on real ones, and compute on this machine's cores. An operator writes "devices: auto" instead.
gpu_classes:
  - name: default
    gpu_model: none, simulated for the demo
    max_gpu_count_per_worker: 1
    local:
      simulated: 1
"""
CLASSES_FILE = "gpu_classes.yaml"
ROOT = Path(__file__).parents[2]
"""Of the repository, where this runs from a checkout."""

_HOLDING = ("starting worker", "computing", "publishing")
"""The phases of a job that has its device."""

_FOUND = """
SELECT label, any_value(kind) AS kind, count(*) AS files, round(avg(score), 3) AS "mean score", min_by(path, length(path)) AS "for example"
FROM (SELECT * FROM library UNION ALL SELECT * FROM project)
GROUP BY label ORDER BY files DESC, label LIMIT 12
"""

_LATEST = "SELECT path, label FROM project WHERE path = 'gpu_classes.yaml'"


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Whose files to look at; this Python installation's if left out."),
    ] = None,
    files: Annotated[int, typer.Option("--files", metavar="COUNT", min=2, help="At most so many of them.")] = 2400,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Make the database here, and leave it.")
    ] = None,
    function: Annotated[
        Path | None,
        typer.Option(
            "--function", metavar="FILE", help="The file of the Function file_type; the repository's if left out."
        ),
    ] = None,
) -> None:
    """Tell the types of some thousands of real files.

    Registers a GPU Function (Google's Magika, a small neural network, installed for its workers alone) on a simulated GPU
    class, shows a job that waits for the class, fills computed columns, queries them, and shows what a refresh costs after one file more.
    """
    library = folder or Path(sysconfig.get_path("stdlib"))
    code = function or ROOT / "functions" / "file_type.py"
    if not library.is_dir():
        raise NotFound(f"{library} is no folder; name one whose files to look at.", path=str(library))
    if not code.is_file():
        raise NotFound(
            f"{code} is not there: it comes with a checkout of the source, as functions/file_type.py. Name it with --function.",
            path=str(code),
        )
    with _place(keep) as place:
        _tell_story(place, library, code, files)
        if keep is not None:
            look = shlex.join(["lancegpu", "--db", str(place), "columns"])
            print(f"\nThe database stays in {place}. Look at it with: {look}")


def _tell_story(place: Path, library: Path, code: Path, files: int) -> None:
    from lancegpu_sql.database import connect

    began = time.monotonic()
    classes = place / CLASSES_FILE
    classes.write_text(GPU_CLASSES)
    # A runtime folder of its own: the demo's one device is to be held by the demo's own jobs.
    settings = settings_with(gpu_classes=classes, runtime_folder=place / "run", catalog=None)
    with connect(place, settings=settings) as database:
        tables = _read(database, library, files)
        _register(database, code, tables)
        _refresh_both(database, *tables)
        _show_found(database)
        _add_one(database, tables[1], classes)
    print(f"\nAll of it took {time.monotonic() - began:.0f} s.")


def _read(database: Database, library: Path, files: int) -> tuple[Table, Table]:
    from lancegpu_sql.cli.demo_files import read_files

    _heading("1. Real files, their beginnings and ends, in two tables")
    tables = []
    for name, folder, most in [("library", library, files), ("project", _project(), max(files // 8, 2))]:
        table = database.create_table(name, read_files(folder, most))
        print(f"   {name}: {table.count_rows():,} files of {folder}")
        tables.append(table)
    return tables[0], tables[1]


def _register(database: Database, code: Path, tables: tuple[Table, Table]) -> None:
    from lancegpu_sql.functions.binding import col

    _heading("2. A GPU Function, and columns computed by it")
    (version,) = database.register_file(code, "file_type")
    (gpu_class,) = database.list_gpu_classes()
    simulated = "simulated: no GPU is used" if gpu_class.simulated else "real"
    print(f"   {version.name} version {version.version} runs on GPU class {gpu_class.name!r} ({simulated})")
    file_type = database.get_function("file_type")
    for table in tables:
        given = table.schema.names
        table.add_columns(file_type(content=col("content")))
        added = [name for name in table.schema.names if name not in given]
        print(f"   {table.name}: columns {', '.join(added)} are declared, and still empty")


def _refresh_both(database: Database, first: Table, second: Table) -> None:
    _heading("3. Two refreshes, one device: the second waits for the first")
    holder = first.refresh_column_async("label")
    _until_it_holds_the_device(holder)
    waiter = second.refresh_column_async("label")
    print(f"   {_why_it_waits(waiter)}")
    for job in (holder, waiter):
        _follow(database, job)


def _until_it_holds_the_device(job: JobHandle[Any]) -> None:
    record = job.record
    while not record.state.ended and (record.progress is None or record.progress.phase not in _HOLDING):
        record = job.next_change(record)


def _why_it_waits(job: JobHandle[Any]) -> str:
    from lancegpu_sql.jobs.words import title

    record = job.record
    while record.waiting_on is None:
        if record.state.ended or (record.progress is not None and record.progress.phase == "computing"):
            return f"{title(record)} did not have to wait: the first job was done."
        record = job.next_change(record)
    waiting_on = record.waiting_on
    return f"{title(record)} is {record.state} on GPU class {waiting_on.gpu_class!r}: {waiting_on.message}"


def _show_found(database: Database) -> None:
    from lancegpu_sql.cli.output import print_rows

    _heading("4. What was found")
    found = database.sql(_FOUND)
    print_rows(found.columns, found.fetchall())


def _add_one(database: Database, table: Table, path: Path) -> None:
    from lancegpu_sql.cli.demo_files import read_file

    _heading("5. One file more, and what a refresh then costs")
    table.add([read_file(path, path.parent)])
    for what in ("after one file was added", "once more"):
        began = time.monotonic()
        result = table.refresh_column_async("label").wait()
        seconds = time.monotonic() - began
        rows = f"{result.rows_assigned} row{'' if result.rows_assigned == 1 else 's'}"
        print(f"   {what}: {rows} computed of {table.count_rows():,}, in {seconds:.2f} s")
    for path_, label in database.sql(_LATEST).fetchall():
        print(f"   {path_} is {label}")


def _follow(database: Database, job: JobHandle[Any]) -> Any:
    from lancegpu_sql.jobs import watch

    sys.stdout.flush()  # progress goes to standard error: both come in their order where they meet
    watch(job, style=database.settings.progress)
    return job.wait()


def _heading(text: str) -> None:
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}", flush=True)


def _project() -> Path:
    return ROOT if (ROOT / "pyproject.toml").is_file() else Path(__file__).parents[1]


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """An empty folder for the database, gone afterwards unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise Conflict(
                f"{keep} is not empty; the demo makes a database of its own: name a new folder.", path=str(keep)
            )
        yield keep
        return
    place = Path(tempfile.mkdtemp(prefix="lancegpu-demo-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
