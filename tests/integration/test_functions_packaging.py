"""Packed in one process, loaded in another: as users' folders are laid out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

LOAD = """
import sys
import pyarrow as pa
from lancegpu_sql.functions.faults import UserFaultError
from lancegpu_sql.functions.loading import load
try:
    loaded = load(open(sys.argv[1], "rb").read())
    print(*loaded.call(pa.record_batch({"text": ["Good", "Bad"]})).to_pylist())
except UserFaultError as fault:
    print(fault.message, fault.traceback_text)
"""
PACK = """
import sys
from lancegpu_sql.functions.packaging import pack
open(sys.argv[1], "wb").write(pack(f.target, f.signature))
"""


class Project:
    """A user's folder, whose `main.py` packs the Function `f`; `load` loads it elsewhere, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.payload = folder / "payload"
        self.elsewhere = folder / "elsewhere"
        self.folder.mkdir()
        self.elsewhere.mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def pack(self, main: str) -> bytes:
        self.write({"main.py": textwrap.dedent(main) + PACK})
        self._run([str(self.folder / "main.py"), str(self.payload)], self.folder)
        return self.payload.read_bytes()

    def load(self) -> str:
        return self._run(["-c", LOAD, str(self.payload)], self.elsewhere)

    def _run(self, arguments: list[str], folder: Path) -> str:
        ran = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


SCRIPT = """
from lancegpu_sql import function
from words import lowered
def twice(text): return lowered(text) * 2
@function
def f(text: str) -> str:
    return twice(text)
"""
WORDS = {"words.py": "def lowered(text): return text.lower()\n"}


def test_a_script_finds_the_modules_beside_it_on_the_worker(project: Project) -> None:
    project.write(WORDS)
    project.pack(SCRIPT)
    assert project.load() == "goodgood badbad"


def test_a_module_is_run_from_the_source_it_had_when_it_was_packed(project: Project) -> None:
    project.write({**WORDS, "mine.py": SCRIPT})
    packed = project.pack("from mine import f")
    assert b"def twice" in packed
    project.write({"mine.py": "raise RuntimeError('changed since')"})
    assert project.load() == "goodgood badbad"


def test_a_module_that_is_gone_from_the_disk_still_loads(project: Project) -> None:
    project.write({"mine.py": SCRIPT.replace("from words import lowered", "lowered = str.lower")})
    project.pack("from mine import f")
    (project.folder / "mine.py").unlink()
    assert project.load() == "goodgood badbad"


PACKAGE = {
    "shop/__init__.py": "from .models.text import f\n",
    "shop/models/__init__.py": "",
    "shop/models/text.py": SCRIPT.replace("from words import", "from ..words import"),
    "shop/words.py": WORDS["words.py"],
}


def test_a_package_may_import_relatively(project: Project) -> None:
    project.write(PACKAGE)
    project.pack("from shop import f")
    assert project.load() == "goodgood badbad"


def test_a_function_of_a_packages_own_file_loads(project: Project) -> None:
    project.write({"shop/__init__.py": SCRIPT.replace("from words", "from .words"), "shop/words.py": WORDS["words.py"]})
    project.pack("from shop import f")
    assert project.load() == "goodgood badbad"


def test_a_package_that_is_gone_loads_what_it_can_of_its_source(project: Project) -> None:
    project.write(
        {**PACKAGE, "shop/models/text.py": SCRIPT.replace("from words import lowered", "lowered = str.lower")}
    )
    project.pack("from shop.models.text import f")
    (project.folder / "shop").rename(project.folder / "shop of yesterday")
    assert project.load() == "goodgood badbad"


def test_a_module_changed_after_its_import_is_packed_as_it_runs(project: Project) -> None:
    project.write({**WORDS, "mine.py": SCRIPT})
    project.pack(
        """
        import pathlib, mine
        path = pathlib.Path(mine.__file__)
        path.write_text(path.read_text().replace("* 2", "* 3"))
        f = mine.f
        """
    )
    assert project.load() == "goodgood badbad"


def test_a_closure_of_a_module_takes_its_helpers_with_it(project: Project) -> None:
    made = """
    from lancegpu_sql import function
    LIMIT = 3
    def cut(text): return text[:LIMIT]
    def make(mark):
        @function(name="marked")
        def marked(text: str) -> str:
            return cut(text) + mark
        return marked
    """
    project.write({"mine.py": made})
    project.pack("from mine import make\nf = make('!')")
    project.write({"mine.py": "raise RuntimeError('changed since')"})
    assert project.load() == "Goo! Bad!"


def test_a_traceback_shows_the_users_lines_and_no_others(project: Project) -> None:
    project.pack(
        """
        from lancegpu_sql import function
        @function
        def f(text: str) -> str:
            return text.no_such_method()
        """
    )
    told = project.load()
    assert "return text.no_such_method()" in told
    assert told.count("File ") == 1


def test_what_a_module_prints_or_raises_when_it_is_imported_is_a_fault_of_loading(project: Project) -> None:
    source = 'import os\nif os.getcwd().endswith("elsewhere"): raise SystemExit("not here")\n' + SCRIPT
    project.write({**WORDS, "mine.py": source})
    project.pack("from mine import f")
    assert project.load().startswith("f could not be imported (SystemExit: not here).")


def test_a_lock_it_closes_over_says_to_make_it_on_the_worker(project: Project) -> None:
    told = """
    import threading
    from lancegpu_sql import function
    from lancegpu_sql.errors import InvalidFunction
    from lancegpu_sql.functions.packaging import pack
    lock = threading.Lock()
    @function
    def g(text: str) -> str:
        with lock: return text
    try:
        pack(g.target, g.signature)
    except InvalidFunction as problem:
        said = str(problem)
    @function
    def f(text: str) -> str:
        return said
    """
    project.pack(told)
    assert "in the __init__ of a class" in project.load()
