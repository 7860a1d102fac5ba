"""TPC-H at scale factor 0.1: its data and queries, made once per machine and kept in a cache folder.

The data comes from tpchgen-cli. The queries and their answers are those of DuckDB's own extension, which a package of its
own brings for one release of DuckDB: that lives in an environment beside them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq

SCALE_FACTOR = 0.1
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

_DUCKDB = "1.5.5"
_READ_QUERIES = """
import json, pathlib, duckdb, duckdb_extension_tpch
(extension,) = pathlib.Path(duckdb_extension_tpch.__file__).parent.glob("extensions/*/tpch.duckdb_extension")
connection = duckdb.connect()
connection.load_extension(str(extension))
queries = dict(connection.execute("FROM tpch_queries()").fetchall())
answers = dict(connection.execute("SELECT query_nr, answer FROM tpch_answers() WHERE scale_factor = 0.1").fetchall())
print(json.dumps([{"number": number, "text": queries[number], "answer": answers[number]} for number in sorted(queries)]))
"""


class NoPackages(Exception):
    """The queries' packages cannot be had."""


@dataclass(frozen=True)
class TpchQuery:
    """One of the 22 queries.

    Attributes
    ----------
    answer
        What it gives, as text: a line of column names, then a line a row, columns apart by ``|``.
    """

    number: int
    text: str
    answer: str


def folder() -> Path:
    """Where Lance tables of it are, by their names; made if they are not there."""
    tables = _cache() / "tables"
    with _locked():
        if not tables.exists():
            _make_whole(tables, _write_tables)
    return tables


def queries() -> list[TpchQuery]:
    """The queries, by number.

    Raises
    ------
    NoPackages
        They are not in the cache, and there is no network.
    """
    file = _cache() / f"queries-{_DUCKDB}.json"
    with _locked():
        if not file.exists():
            _make_whole(file, _write_queries)
    return [TpchQuery(**each) for each in json.loads(file.read_text(encoding="utf-8"))]


def _write_tables(made: Path) -> None:
    with tempfile.TemporaryDirectory() as parquet:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(generator), "parquet", "-q", "-s", str(SCALE_FACTOR), "-o", parquet]
        subprocess.run(command, check=True)
        made.mkdir()
        for name in TABLES:
            table = pq.read_table(f"{parquet}/{name}.parquet")
            # Lance stores no views.
            fields = [
                field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in table.schema
            ]
            lance.write_dataset(table.cast(pa.schema(fields)), str(made / f"{name}.lance"), enable_stable_row_ids=True)


def _write_queries(made: Path) -> None:
    with tempfile.TemporaryDirectory() as environment:
        uv = str(Path(sys.executable).with_name("uv"))
        python = f"{environment}/bin/python"
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, environment], check=True)
        packages = [f"duckdb=={_DUCKDB}", f"duckdb-extension-tpch=={_DUCKDB}"]
        installed = subprocess.run(
            [uv, "pip", "install", "-q", "--python", python, *packages], check=False, capture_output=True, text=True
        )
        if installed.returncode:
            raise NoPackages(installed.stderr)
        # Not where this program's packages are found.
        done = subprocess.run([python, "-I", "-c", _READ_QUERIES], check=True, capture_output=True, text=True)
    made.write_text(done.stdout, encoding="utf-8")


def _make_whole(path: Path, make: Callable[[Path], None]) -> None:
    """Make something beside its place, and move it there when it is whole."""
    half = path.with_name(f"half-made-{path.name}")
    shutil.rmtree(half, ignore_errors=True)
    half.unlink(missing_ok=True)
    make(half)
    half.rename(path)


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "lancegpu" / "tpch-0.1"


@contextmanager
def _locked() -> Iterator[None]:
    """Of two that ask at once, one waits for the other."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
