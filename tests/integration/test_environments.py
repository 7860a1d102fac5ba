"""Functions with packages of their own. The packages are wheels made here; what a worker itself needs comes from the index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from skips import Skip
from wheels import make_wheel

from lancegpu_sql import Database, col, connect, function
from lancegpu_sql.errors import Cancelled, EnvironmentFailed, InvalidFunction, LoadFailed
from lancegpu_sql.functions.environment import Environment, own_python_version
from lancegpu_sql.functions.environment_store import EnvironmentStore
from lancegpu_sql.functions.environment_uv import find_python

NOWHERE = """
gpu_classes:
  - name: default
    local:
      devices: auto
"""


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "lancegpu_greeting", "1.0", {"lancegpu_greeting.py": "WORD = 'hello'\n"})
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def db(tmp_path: Path, environments: Path, wheels: Path) -> Iterator[Database]:
    with connect(tmp_path / "db", environment_folder=environments, runtime_folder=tmp_path / "run") as opened:
        opened.create_table("people", pa.table({"name": ["Ada"]}))
        yield opened


@function(pip=("lancegpu_greeting==1.*",))
def greeted(name: str) -> str:
    from lancegpu_greeting import WORD

    return f"{WORD} {name}"


def test_a_function_runs_with_the_packages_that_it_asks_for(db: Database) -> None:
    table = db.open_table("people")
    table.add_columns({"greeting": greeted(name=col("name"))})
    job = table.refresh_column_async("greeting")
    job.wait()
    assert table.to_arrow()["greeting"].to_pylist() == ["hello Ada"]
    told = [event.message for event in job.events()]
    assert told.index("Preparing.") < told.index("Starting worker.")


def test_the_packages_of_this_process_are_not_there(db: Database) -> None:
    @function(pip=("lancegpu_greeting",))
    def sees(name: str) -> bool:
        from importlib.util import find_spec

        return find_spec("sqlalchemy") is not None

    db.create_function(sees)
    assert db.sql("SELECT sees(name) FROM people").fetchall() == [(False,)]


def test_packages_that_cannot_be_had_fail_the_registration_in_the_resolvers_words(db: Database) -> None:
    with pytest.raises(
        EnvironmentFailed, match=r"lancegpu_greeting==2 cannot be resolved|no version of lancegpu-greeting==2"
    ) as caught:
        db.create_function(greeted, pip=("lancegpu_greeting==2",))
    assert (caught.value.facts["owner"], db.list_functions()) == ("environment", [])


def test_packages_that_a_worker_cannot_do_with_fail_the_registration(db: Database, wheels: Path) -> None:
    make_wheel(wheels, "lancegpu_ancient", "1.0", {"lancegpu_ancient.py": ""}, requires=["pyarrow<10"])
    with pytest.raises(EnvironmentFailed, match="pyarrow"):
        db.create_function(greeted, pip=("lancegpu_ancient",))


def test_a_version_keeps_its_packages_when_newer_ones_come(db: Database, wheels: Path) -> None:
    first = db.create_function(greeted)
    make_wheel(wheels, "lancegpu_greeting", "1.1", {"lancegpu_greeting.py": "WORD = 'hi'\n"})
    assert db.create_function(greeted) == first
    newer = db.create_function(greeted, pip=("lancegpu_greeting>=1.1",))
    assert newer.version == 2
    assert newer.environment is not None
    assert "lancegpu-greeting==1.1" in str(newer.environment.lock)


def test_an_environment_that_cannot_be_made_fails_the_job_before_it_waits_for_a_gpu(
    tmp_path: Path, db: Database, wheels: Path
) -> None:
    (tmp_path / "classes.yaml").write_text(NOWHERE)
    db.apply_gpu_classes(tmp_path / "classes.yaml")
    make_wheel(wheels, "lancegpu_gone", "1.0", {"lancegpu_gone.py": ""})
    table = db.open_table("people")
    table.add_columns({"greeting": greeted.changed(pip=("lancegpu_gone",), gpu=True)(name=col("name"))})
    (wheels / "lancegpu_gone-1.0-py3-none-any.whl").unlink()
    job = table.refresh_column_async("greeting")
    with pytest.raises(EnvironmentFailed, match=r"greeted version 1 cannot run(?s:.)*lancegpu-gone"):
        job.wait()
    assert [error.owner for error in job.errors()] == ["environment"]


def test_sql_says_the_packages_and_describes_what_they_became(db: Database) -> None:
    db.sql(
        """CREATE FUNCTION greets(name utf8) RETURNS utf8 LANGUAGE python WITH (pip = '["lancegpu_greeting==1.*"]') AS $$
        def greets(name):
            import lancegpu_greeting
            return lancegpu_greeting.WORD
        $$"""
    )
    (told,) = db.sql("DESCRIBE FUNCTION greets").to_arrow().to_pylist()
    assert told["pip"] == '["lancegpu_greeting==1.*"]'
    assert "lancegpu-greeting==1.0" in told["lock"]


# What it imports.


def test_a_package_of_this_process_that_was_forgotten_is_named_when_it_is_registered(db: Database) -> None:
    source = "def pages(name):\n    import yaml\n    import lancegpu_greeting\n    return str(yaml.safe_load(name))"
    with pytest.raises(InvalidFunction, match=r"pages imports yaml(?s:.)*Add 'pyyaml' to pip"):
        db.sql(created("pages", source))


def test_a_module_that_no_package_has_fails_the_job_before_a_worker_is_started(db: Database) -> None:
    db.sql(created("pages", "def pages(name):\n    import lancegpu_nowhere\n    return name"))
    with pytest.raises(EnvironmentFailed, match="imports lancegpu_nowhere, which none of its packages has"):
        db.sql("SELECT pages(name) FROM people").fetchall()


def test_a_package_imported_where_the_function_is_defined_says_where_to_import_it(db: Database) -> None:
    with pytest.raises(LoadFailed, match="inside the function, or in the __init__"):
        db.sql(created("pages", "import lancegpu_greeting\ndef pages(name):\n    return name"))


def test_a_module_that_this_machine_has_not_is_warned_of(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    db.sql(created("pages", "def pages(name):\n    import lancegpu_nowhere\n    return name", pip=""))
    assert "pages imports lancegpu_nowhere, which there is not on this machine" in caplog.text


def created(name: str, source: str, pip: str = "WITH (pip = 'lancegpu_greeting')") -> str:
    return f"CREATE FUNCTION {name}(name utf8) RETURNS utf8 LANGUAGE python {pip} AS $$\n{source}\n$$"


# The folder of environments.


@pytest.fixture
def greeting(tmp_path: Path, wheels: Path) -> Environment:
    """Without what a worker needs itself: smaller, and made in a moment."""
    digest = subprocess.run(
        ["sha256sum", wheels / "lancegpu_greeting-1.0-py3-none-any.whl"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    return Environment(own_python_version(), f"lancegpu-greeting==1.0 --hash=sha256:{digest}\n")


def making(folder: Path, environment: Environment) -> str:
    """A program that makes an environment, and says so."""
    return textwrap.dedent(
        f"""
        import logging
        from lancegpu_sql.functions.environment import Environment
        from lancegpu_sql.functions.environment_store import EnvironmentStore
        logging.basicConfig(level="INFO", format="%(message)s")
        print(EnvironmentStore({str(folder)!r}).make({environment!r}).python)
        """
    )


def test_processes_that_ask_at_once_make_it_once(tmp_path: Path, greeting: Environment) -> None:
    program = making(tmp_path / "kept", greeting)

    def run(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    with ThreadPoolExecutor(3) as threads:
        runs = list(threads.map(run, range(3)))
    assert len({each.stdout for each in runs}) == 1
    assert sum(each.stderr.count("made the environment") for each in runs) == 1


def test_what_one_who_was_killed_left_is_cleared_away(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    half, beside = store.folder / greeting.digest, store.folder / f"{greeting.digest}.new-0123"
    for folder in (half, beside):
        (folder / "bin").mkdir(parents=True)
    made = store.make(greeting)
    assert subprocess.run([made.python, "-c", "import lancegpu_greeting"], check=True).returncode == 0
    assert not beside.exists()


def test_a_maker_that_is_killed_costs_no_more_than_its_own_work(tmp_path: Path, greeting: Environment) -> None:
    maker = subprocess.Popen([sys.executable, "-c", making(tmp_path / "kept", greeting)], stdout=subprocess.DEVNULL)
    while not list((tmp_path / "kept").glob("*.new-*")) and maker.poll() is None:
        pass
    maker.kill()
    maker.wait()
    made = EnvironmentStore(tmp_path / "kept").make(greeting)
    assert subprocess.run([made.python, "-c", "import lancegpu_greeting"], check=True).returncode == 0


def test_an_environment_whose_interpreter_is_gone_is_made_anew(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    python = store.make(greeting).python
    python.unlink()
    python.symlink_to(tmp_path / "no such python")
    assert os.access(store.make(greeting).python, os.X_OK)


def test_what_stands_in_the_place_of_an_environment_is_cleared_away(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    made = store.make(greeting)
    (made.folder / "pyvenv.cfg").unlink()
    assert store.find(greeting) is None
    assert (store.make(greeting).folder / "pyvenv.cfg").is_file()
    shutil.rmtree(made.folder)
    made.folder.symlink_to(tmp_path / "nowhere")
    assert not store.make(greeting).folder.is_symlink()


def test_workers_find_this_package_though_its_link_led_elsewhere(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    link = store.make(greeting).package_folder / "lancegpu_sql"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    assert (store.make(greeting).package_folder / "lancegpu_sql" / "__init__.py").is_file()


def test_a_package_that_is_not_what_the_lock_says_is_refused(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    other = Environment(greeting.python_version, f"lancegpu-greeting==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(EnvironmentFailed, match=r"(?i)hash"):
        store.make(other)
    assert store.find(other) is None
    assert [path.name for path in store.folder.iterdir() if ".new-" in path.name] == []


def test_a_lock_without_hashes_is_refused(tmp_path: Path, greeting: Environment) -> None:
    bare = Environment(greeting.python_version, "lancegpu-greeting==1.0\n")
    with pytest.raises(EnvironmentFailed, match="hash"):
        EnvironmentStore(tmp_path / "environments").make(bare)


def test_making_can_be_given_up(tmp_path: Path, greeting: Environment) -> None:
    store = EnvironmentStore(tmp_path / "kept")
    store.folder.mkdir()
    holder = subprocess.Popen(["flock", store.folder / f"{greeting.digest}.lock", "cat"], stdin=subprocess.PIPE)
    try:
        while (
            subprocess.run(["flock", "-n", store.folder / f"{greeting.digest}.lock", "true"], check=False).returncode
            == 0
        ):
            pass
        with pytest.raises(Cancelled):
            store.make(greeting, lambda: True)
    finally:
        holder.communicate()


# Another Python.


def other_python() -> str | None:
    """The minor version of another Python of this machine."""
    for one in ("3.12", "3.13", "3.11"):
        with suppress(EnvironmentFailed):
            if one != own_python_version() and find_python(one):
                return one
    return None


OTHER = other_python()
needs_other_python = pytest.mark.skipif(OTHER is None, reason=Skip.NEEDS_PYTHON)

WHICH = """
import sys
from lancegpu_sql import function

def minor() -> str:
    return "%d.%d" % sys.version_info[:2]

@function(python_version="OTHER", pip=("lancegpu_greeting",))
def which(name: str) -> str:
    from lancegpu_greeting import WORD
    return WORD + " from " + minor()
"""


@needs_other_python
def test_a_function_of_a_file_runs_on_the_python_that_it_names(tmp_path: Path, db: Database) -> None:
    (tmp_path / "which.py").write_text(WHICH.replace("OTHER", str(OTHER)))
    (version,) = db.register_file(tmp_path / "which.py")
    assert version.python_version == OTHER
    assert db.sql("SELECT which(name) FROM people").fetchall() == [(f"hello from {OTHER}",)]


@needs_other_python
def test_a_function_of_a_text_runs_on_the_python_that_it_names(db: Database) -> None:
    db.sql(
        f"""CREATE FUNCTION which(name utf8) RETURNS utf8 LANGUAGE python WITH (python_version = '{OTHER}') AS $$
        import sys
        def which(name):
            return "%d.%d" % sys.version_info[:2]
        $$"""
    )
    assert db.sql("SELECT which(name) FROM people").fetchall() == [(OTHER,)]


def test_code_without_source_goes_to_no_other_python(db: Database) -> None:
    space = {"function": function}
    exec("def shout(name: str) -> str:\n    return name.upper()", space)
    with pytest.raises(InvalidFunction, match="as source only"):
        db.create_function(space["shout"], python_version="3.99")


def test_a_python_that_is_not_there_is_named_when_it_is_asked_for(tmp_path: Path, db: Database) -> None:
    (tmp_path / "which.py").write_text(WHICH.replace("OTHER", "3.99"))
    with pytest.raises(EnvironmentFailed, match=r"no Python 3\.99(?s:.)*uv python install 3\.99"):
        db.register_file(tmp_path / "which.py")


def test_upkeep_leaves_an_environment_to_its_functions_and_its_workers(tmp_path: Path, wheels: Path) -> None:
    folder = tmp_path / "environments"

    def left_over(db: Database) -> int:
        for lock in folder.glob("*/lancegpu.lock.txt"):
            os.utime(lock, (0, 0))
        return db.remove_left_over().removed

    with connect(tmp_path / "db", environment_folder=folder, runtime_folder=tmp_path / "run") as db:
        db.create_function(greeted)
        assert db.sql("SELECT greeted('Ada')").fetchall() == [("hello Ada",)]
        db.drop_function("greeted")
        assert left_over(db) == 0  # its worker is still warm
    with connect(tmp_path / "db", environment_folder=folder, runtime_folder=tmp_path / "run") as db:
        db.create_function(greeted)
        assert left_over(db) == 0
        db.drop_function("greeted")
        assert left_over(db) == 1
        db.create_function(greeted)
        assert db.sql("SELECT greeted('Ada')").fetchall() == [("hello Ada",)]
