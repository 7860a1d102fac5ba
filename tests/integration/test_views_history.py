"""Whatever happened to its sources: a view that was refreshed is its query run from nothing, and no input is computed twice."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from in_process_functions import InProcessFunctions
from refresh_kit import open_database, short_folder

from lancegpu_sql import function
from lancegpu_sql.catalog.models import FunctionVersion, JobRecord, JobState, utc_now
from lancegpu_sql.database import Database
from lancegpu_sql.refresh.views.defining import define_view
from lancegpu_sql.refresh.views.model import metadata_of, open_view
from lancegpu_sql.refresh.views.plan import has_news
from lancegpu_sql.refresh.views.refreshing import refresh_view
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.refresh.views.sources import PinnedTables

VIEWS = {
    "plain": "SELECT key, f(x) AS y FROM t WHERE key % 5 <> 0",
    "filtered": "SELECT *, f(x) AS y FROM t WHERE f(x) % 2 = 0",
    "chunks": "SELECT key, unnest(g(x)) AS part FROM t",
    "grouped": "SELECT f(x) AS y, count(*) AS n, sum(key) AS keys FROM t GROUP BY ALL",
    "windowed": "SELECT key, f(x) - lag(x) OVER (ORDER BY key, x) AS step FROM t",
    "doubled": "SELECT x FROM t UNION ALL SELECT x FROM t",
    "risky": "SELECT key, h(x) AS y FROM t WHERE key % 3 <> 0",
    "risky_groups": "SELECT h(x) AS y, count(*) AS n FROM t GROUP BY ALL",
    "on_views": "SELECT p.key, c.part, f(c.part) AS z FROM plain AS p JOIN chunks AS c USING (key)",
    "on_a_view": "SELECT part, f(part) AS z FROM chunks WHERE part > 2",
}
READERS = {"t": ("plain", "grouped", "windowed"), "plain": ("on_views",), "chunks": ("on_views", "on_a_view")}
EXAMPLES = 40 if os.environ.get("TEST_LENGTH") == "full" else 8
NUMBERS = st.integers(0, 40)
FAILS = 7
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 12)), min_size=1, max_size=6)


@function
def f(x: int) -> int:
    return x * 7 % 11


@function
def g(x: int) -> list[int]:
    return list(range(x % 4))


@function
def h(x: int) -> int | None:
    if x == FAILS:
        raise ValueError("unlucky")
    return x + 1


@function(name="h")
def h_or_null(x: int) -> int | None:
    return None if x == FAILS else x + 1


class Killed(BaseException):
    """What ends a refresh in the middle, as a signal would."""


class Noting(InProcessFunctions):
    """Functions that note each input, and die at a chosen batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: Counter[tuple[str, int]] = Counter()
        self.dies_in = -1

    def compute(self, version: FunctionVersion, arguments: pa.RecordBatch) -> pa.Array:
        if self.dies_in == 0:
            raise Killed
        self.dies_in -= 1
        self.inputs.update((version.name, value) for value in arguments.column(0).to_pylist())
        return super().compute(version, arguments)


class Job:
    """A refresh's job, which tells nobody."""

    grace_seconds = 0.0

    def __init__(self, db: Database) -> None:
        # Errors of rows are kept for jobs that the catalog knows; upkeep has nothing to do with one that ended.
        ended = {"state": JobState.FINISHED, "finished_at": utc_now()}
        record = JobRecord.new("refresh_view").model_copy(update=ended)
        db._services.catalog.add_job(record)
        self.id = record.id
        self.cancelled = threading.Event()

    def waiting(self, waiting_on: object) -> None:
        raise AssertionError(waiting_on)

    def running(self, phase: str) -> None: ...

    def progress(self, **rows: int | None) -> None: ...

    def event(self, kind: str, message: str, detail: Mapping[str, Any] | None = None) -> None: ...

    def log(self, line: str) -> None: ...

    def timings(self, worker: str, *, gpu_class: str | None = None, **spent: float) -> None: ...


class History(RuleBasedStateMachine):
    """A table's life, and refreshes in between."""

    db: Database
    schemas: dict[str, pa.Schema]

    @initialize(rows=ROWS)
    def begin(self, rows: list[tuple[int, int]]) -> None:
        self.functions = Noting()
        self.functions.add(f)
        self.functions.add(g)
        self.functions.add(h)
        self.seen: set[tuple[str, int]] = set()
        self.lost: set[tuple[str, int]] = set()
        self.db.clear_results()
        for name in self.db.table_names():
            self.db._services.tables.drop(name)
        self.table = self.db.create_table("t", _rows(rows))
        tables = self.db._services.tables
        for name, query in VIEWS.items():
            if name not in self.schemas:
                defined = define_view(tables, self.functions, query)
                self.schemas[name] = defined.schema.with_metadata(dict(metadata_of(defined.definition)))
            tables.create_view(name, self.schemas[name])

    @rule(rows=ROWS)
    def insert(self, rows: list[tuple[int, int]]) -> None:
        self.table.add(_rows(rows))

    @rule(key=NUMBERS, x=st.integers(0, 12))
    def update(self, key: int, x: int) -> None:
        self.table.update(f"key = {key}", {"x": x})

    @rule(key=NUMBERS)
    def delete(self, key: int) -> None:
        self.table.delete(f"key % 7 = {key % 7}")

    @rule(rows=ROWS)
    def merge(self, rows: list[tuple[int, int]]) -> None:
        merge = self.table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(_rows(list({key: (key, x) for key, x in rows}.values())))

    @rule()
    def compact(self) -> None:
        self._optimize("t", None)

    @rule(view=st.sampled_from(sorted(VIEWS)))
    def compact_a_view(self, view: str) -> None:
        self._optimize(view, None)

    @rule(name=st.sampled_from(["t", *sorted(VIEWS)]))
    def optimize(self, name: str) -> None:
        self._optimize(name, timedelta(0))

    @rule(chosen=st.integers(0, 1000))
    def restore(self, chosen: int) -> None:
        versions = self.table.list_versions()
        self.table.restore(versions[chosen % len(versions)].version)

    @rule()
    def fill_a_column(self) -> None:
        if "extra" in self.table.schema.names:
            self.table._services.tables.open("t").dataset.drop_columns(["extra"])
        else:
            self.table.add_columns({"extra": "x + 1"})

    @rule(view=st.sampled_from(sorted(VIEWS)), full=st.booleans(), again=st.booleans())
    def refresh(self, view: str, full: bool, again: bool) -> None:
        needed = self._needed(view)
        self.functions.inputs.clear()
        self._refresh(view, full=full, retry_failed=again)
        tried = self.functions.inputs.pop(("h", FAILS), 0)
        assert not (again and ("h", FAILS) in needed) or tried or view == "risky", "what failed was not tried again"
        needed.discard(("h", FAILS))
        called = set(self.functions.inputs)
        assert self.functions.inputs.total() == len(called), "an input was computed twice"
        assert called >= needed - self.seen - self.lost
        assert called <= needed - self.seen
        self.seen |= called

    @rule(view=st.sampled_from(sorted(VIEWS)), at=st.integers(0, 2))
    def kill(self, view: str, at: int) -> None:
        before = self._stored(view)
        self.functions.inputs.clear()
        self.functions.dies_in = at
        try:
            self._refresh(view)
        except Killed:
            self.lost |= set(self.functions.inputs)
            assert self._stored(view) == before
        else:
            self.seen |= set(self.functions.inputs)
        self.functions.dies_in = -1

    @invariant()
    def nothing_lies_about(self) -> None:
        if hasattr(self, "functions"):
            assert self.functions.dies_in < 0

    def _optimize(self, name: str, older_than: timedelta | None) -> None:
        fresh = [view for view in READERS.get(name, ()) if self._is_fresh(view)]
        self.db.open_table(name).optimize(cleanup_older_than=older_than)
        assert all(self._is_fresh(view) for view in fresh)

    def _is_fresh(self, view: str) -> bool:
        """Whether it is known, without reading rows, that a refresh would find nothing to do."""
        tables = self.db._services.tables
        return not has_news(tables, open_view(tables, view), self.functions.known().values())

    def _refresh(self, view: str, **options: Any) -> None:
        if self._is_fresh(view):
            assert self._stored(view) == self._anew(view)
        resources = self.db._services.refresh_resources()
        refresh_view(
            resources, view, ViewOptions.of(error_policy="skip", **options), Job(self.db), functions=self.functions
        )
        assert self._stored(view) == self._anew(view)

    def _stored(self, view: str) -> list[tuple[Any, ...]]:
        return sorted(self.db.sql(f"FROM {view}").fetchall(), key=repr)

    def _anew(self, view: str) -> list[tuple[Any, ...]]:
        """The rows of the view's query, run from nothing."""
        fresh = InProcessFunctions()
        fresh.add(f)
        fresh.add(g)
        fresh.add(h_or_null)
        session = PinnedTables(self.db._services.tables).session(fresh)
        names = ", ".join(self.db.open_table(view).schema.names)
        try:
            return sorted(session.query(f"SELECT {names} FROM ({VIEWS[view]})").fetchall(), key=repr)
        finally:
            session.close()

    def _needed(self, view: str) -> set[tuple[str, int]]:
        """The inputs that a view's Functions have."""
        fresh = Noting()
        fresh.add(f)
        fresh.add(g)
        fresh.add(h_or_null)
        session = PinnedTables(self.db._services.tables).session(fresh)
        try:
            session.query(VIEWS[view]).to_arrow()
        finally:
            session.close()
        return set(fresh.inputs)


def _rows(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"key": pa.array([key for key, _ in rows]), "x": pa.array([x for _, x in rows])})


@contextmanager
def machine() -> Iterator[type[History]]:
    with short_folder() as folder, open_database(folder) as db:
        yield type("History", (History,), {"db": db, "schemas": {}})


@pytest.mark.parametrize("examples", [EXAMPLES])
def test_a_view_is_its_query_run_from_nothing_after_any_history(examples: int):
    with machine() as history:
        checks = list(HealthCheck)
        chosen = settings(max_examples=examples, stateful_step_count=14, deadline=None, suppress_health_check=checks)
        run_state_machine_as_test(history, settings=chosen)
