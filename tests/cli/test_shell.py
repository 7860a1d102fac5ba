"""The shell of SQL, on a terminal."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from refresh_kit import open_database, short_folder
from terminal import Terminal

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database

SOON_SECONDS = 5.0  # a second on a machine that has nothing else to do
PROMPT = r"lancegpu>\s*$"


@pytest.fixture
def full() -> Iterator[Database]:
    """A database with a Function whose GPU class has no device."""

    def nowhere(text: str) -> int:
        return len(text)

    with short_folder() as folder:
        (folder / "classes.yaml").write_text("gpu_classes: [{name: none, local: {simulated: 0}}]")
        with open_database(folder, gpu_classes=folder / "classes.yaml") as db:
            db.create_function(nowhere, gpu=True, gpu_class="none")
            yield db


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the shell keeps its statements."""
    return tmp_path / "state"


@pytest.fixture(scope="module")
def shell(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """One shell, in which one test follows the other."""
    with opened(shop, tmp_path_factory.mktemp("state")) as terminal:
        yield terminal


def opened(shop: Path, home: Path) -> Terminal:
    environment = {"LANCEGPU_RUNTIME_FOLDER": str(shop.parent / "run"), "XDG_STATE_HOME": str(home)}
    terminal = Terminal("--db", str(shop), "sql", environment=environment)
    terminal.until(PROMPT)
    return terminal


def shown(terminal: Terminal, statement: str) -> str:
    """What a statement shows."""
    terminal.type(f"{statement}\r")
    return terminal.until(rf"(?s){re.escape(statement[-20:])}\n.*{PROMPT}")


def test_rows_are_drawn_as_a_table_and_counted(shell: Terminal):
    seen = shown(shell, "SELECT id, NULL AS n FROM (VALUES (1), (22)) v(id);")
    assert "│ 22 │ NULL │" in seen
    assert "(2 rows)" in seen


def test_a_statement_goes_on_over_lines_until_its_semicolon(shell: Terminal):
    shell.type("SELECT 'a;b' AS x,\r")
    shell.until(r"\.\.\.>")
    assert "│ a;b │ 2 │" in shown(shell, "2 AS y;")


def test_a_mistake_is_shown_with_its_caret_and_the_session_goes_on(shell: Terminal):
    shown(shell, "CREATE TEMP TABLE kept AS SELECT 5 AS five;")
    assert "\nSELEC 1;\n^" in shown(shell, "SELEC 1;")
    assert "│    5 │" in shown(shell, "FROM kept;")


def test_tables_columns_and_functions_are_completed(shell: Terminal):
    shell.type("SELECT text_s\t")
    shell.until(r"text_size\(")
    shell.type("text) AS n FROM rev\t")
    shell.until("reviews")
    shell.type(" WHERE siz\t")
    shell.until("size")
    assert "│ 4 │" in shown(shell, " = 4 AND 'so' = 'so';")


def test_commands_list_tables_and_tell_the_time(shell: Terminal):
    assert "│ reviews " in shown(shell, "\\d")
    assert "│ size " in shown(shell, "\\d reviews")
    assert "Timing is on." in shown(shell, "\\timing")
    assert re.search(r"Time: \d+\.\d{3} s", shown(shell, "SELECT 1;"))
    assert "Timing is off." in shown(shell, "\\timing off")
    assert "\\? lists those there are" in shown(shell, "\\nonsense")


def test_functions_and_jobs_are_listed_a_line_each(shell: Terminal):
    assert "runs on" in shown(shell, "\\df")
    assert "works on" in shown(shell, "\\dj")


def test_only_the_first_rows_of_many_are_shown(shell: Terminal):
    shown(shell, "\\rows 3")
    seen = shown(shell, "FROM range(1000000);")
    assert "(the first 3 rows; there are more)" in seen
    assert "│     3 │" not in seen
    shown(shell, "\\rows 100")


def test_ctrl_c_drops_what_is_typed_and_ends_what_runs_but_not_the_shell(shell: Terminal):
    shell.type("SELECT nonsense\x03")
    shell.until(PROMPT)
    shell.type("SELECT 1; SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b;\r")
    shell.until(r"\(1 row\)")  # the second is under way
    shell.type("\x03")
    shell.until(rf"(?s)Cancelled\..*{PROMPT}")
    assert "│   1 │" in shown(shell, "SELECT 1 AS one;")


def test_ctrl_c_on_a_query_that_waits_ends_it_soon_and_says_how_to_go_on(full: Database, home: Path):
    with opened(Path(full.uri), home) as shell:
        shell.type("SELECT nowhere('a');\r")
        shell.until("query: waiting.*'none'")
        begun = time.monotonic()
        shell.type("\x03")
        seen = shell.until(rf"(?s)Cancelled while it waited.*{PROMPT}")
        assert time.monotonic() - begun < SOON_SECONDS
        assert "run it again" in seen
    assert full.list_jobs(limit=1)[0].state is JobState.CANCELLED


def test_statements_are_kept_for_the_next_shell_where_nobody_else_reads_them(shop: Path, home: Path):
    with opened(shop, home) as first:
        shown(first, "SELECT 1 AS kept;")
        shown(first, " SELECT 2 AS secret;")
        first.type("\\q\r")
        assert first.ended() == 0
    (history,) = home.rglob("sql_history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "secret" not in history.read_text()
    with opened(shop, home) as second:
        second.type("\x1b[A\x1b[A\r")
        assert second.until(rf"(?s)kept.*\(1 row\).*{PROMPT}")
        second.type("\x04")
        assert second.ended() == 0
