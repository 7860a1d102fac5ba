"""Whatever happens to a table, a refresh computes exactly the rows whose stored value does not hold, and these right."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from refresh_kit import Calls, by_key, noting, open_database, reference, short_folder

from lancegpu_sql import col
from lancegpu_sql.database import Database
from lancegpu_sql.refresh.request import RefreshResult

FULL = os.environ.get("TEST_LENGTH") == "full"
TIMES = (10, 3, 5)
SIDE_TIMES = 2

numbers = st.one_of(st.none(), st.integers(-3, 8))
keys = st.integers(0, 12)
residues = st.tuples(st.integers(1, 4), st.integers(0, 3))
some_rows = st.dictionaries(keys, numbers, min_size=1, max_size=5)


@dataclass
class Cell:
    """A stored value, and what it was computed from: the input and the Function's factor. Neither, if never computed."""

    proof: tuple[int | None, int] | None = None
    value: int | None = None


@dataclass
class Row:
    x: int | None
    other: str = "o"
    y: Cell = field(default_factory=Cell)
    side: Cell = field(default_factory=Cell)


@dataclass
class Model:
    """What one version of the table should hold."""

    rows: dict[int, Row] = field(default_factory=dict)
    x_name: str = "x"
    y_name: str = "y"
    times: int = TIMES[0]
    extra: int = 0

    def matching(self, residue: tuple[int, int]) -> list[int]:
        return [key for key in self.rows if key % residue[0] == residue[1]]

    def due(self, which: str) -> list[int]:
        """Keys whose stored value does not hold."""
        return [key for key, row in self.rows.items() if getattr(row, which).proof != (row.x, self.times_of(which))]

    def times_of(self, which: str) -> int:
        return self.times if which == "y" else SIDE_TIMES

    def compute(self, which: str, key: int) -> None:
        row, times = self.rows[key], self.times_of(which)
        setattr(row, which, Cell((row.x, times), reference(row.x, times)))

    def states(self, which: str) -> tuple[int, int, int, int]:
        never = sum(getattr(row, which).proof is None for row in self.rows.values())
        due = len(self.due(which))
        return len(self.rows) - due, due - never, 0, never


class History(RuleBasedStateMachine):
    """One table's life."""

    database: ClassVar[Database]
    calls: ClassVar[dict[str, Calls]]
    serial: ClassVar[count[int]] = count()

    @initialize(first=st.lists(st.dictionaries(keys, numbers, max_size=4), min_size=1, max_size=3))
    def create(self, first: list[dict[int, int | None]]) -> None:
        self.name = f"t{next(self.serial)}"
        self.model = Model()
        self.table = self.database.create_table(self.name, self._data({}))
        for rows in first:
            self._append({key: x for key, x in rows.items() if key not in self.model.rows})
        self.table.add_columns({"y": self._function("y", TIMES[0])(key=col("key"), x=col("x"))})
        self.table.add_columns({"side": self._function("side", SIDE_TIMES)(key=col("key"), x=col("x"))})
        self.versions: dict[int, Model] = {}
        self._note()

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.database.drop_table(self.name)

    # What users do

    @rule(rows=some_rows)
    def add(self, rows: dict[int, int | None]) -> None:
        self._append({key: x for key, x in rows.items() if key not in self.model.rows})
        self._note()

    @rule(residue=residues, change=st.sampled_from(["x", "x + 1", "x * 2", "7", "NULL"]))
    def update_the_input(self, residue: tuple[int, int], change: str) -> None:
        name = self.model.x_name
        expression = "CAST(NULL AS BIGINT)" if change == "NULL" else change.replace("x", f"`{name}`")
        self.table.update(f"key % {residue[0]} = {residue[1]}", values_sql={name: expression})
        for key in self.model.matching(residue):
            row = self.model.rows[key]
            row.x = (
                None
                if change == "NULL"
                else 7
                if change == "7"
                else None
                if row.x is None
                else eval(change, {"x": row.x})
            )
        self._note()

    @rule(residue=residues, text=st.sampled_from("abc"))
    def update_another_column(self, residue: tuple[int, int], text: str) -> None:
        self.table.update(f"key % {residue[0]} = {residue[1]}", {"other": text})
        for key in self.model.matching(residue):
            self.model.rows[key].other = text
        self._note()

    @rule(residue=residues)
    def delete(self, residue: tuple[int, int]) -> None:
        self.table.delete(f"key % {residue[0]} = {residue[1]}")
        for key in self.model.matching(residue):
            del self.model.rows[key]
        self._note()

    @rule(rows=some_rows, with_other=st.booleans())
    def upsert(self, rows: dict[int, int | None], with_other: bool) -> None:
        merge = self.table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        data = self._data(rows)
        merge.execute(data if with_other else data.drop_columns(["other"]))
        for key, x in rows.items():
            if key in self.model.rows:
                self.model.rows[key].x = x
                self.model.rows[key].other = "o" if with_other else self.model.rows[key].other
            else:
                self.model.rows[key] = Row(x, "o" if with_other else None)
        self._note()

    @rule()
    def compact(self) -> None:
        self.table.optimize(cleanup_older_than=None)
        self._note()

    @rule()
    def optimize(self) -> None:
        self.table.optimize(cleanup_older_than=timedelta(0))
        left = {one.version for one in self.table.list_versions()}
        self.versions = {version: model for version, model in self.versions.items() if version in left}
        self._note()

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.table.restore(version)
        self.model = deepcopy(self.versions[version])
        self._note()

    @precondition(lambda self: self.model.extra < 2)
    @rule()
    def fill_a_plain_column(self) -> None:
        self.model.extra += 1
        self.table.add_columns({f"plain{self.model.extra}": "key * 2"})
        self._note()

    @rule(name=st.sampled_from(["x", "input", "the input"]))
    def rename_the_input(self, name: str) -> None:
        if name != self.model.x_name:
            self.table.alter_column(self.model.x_name, rename=name)
            self.model.x_name = name
            self._note()

    @rule(name=st.sampled_from(["y", "the result"]))
    def rename_the_result(self, name: str) -> None:
        if name != self.model.y_name:
            self.table.alter_column(self.model.y_name, rename=name)
            self.model.y_name = name
            self._note()

    @rule(times=st.sampled_from(TIMES))
    def use_another_function_version(self, times: int) -> None:
        self.table.alter_column(self.model.y_name, function=self._function("y", times))
        self.model.times = times
        self._note()

    # What is being tested

    @rule(which=st.sampled_from(["y", "y", "side"]), interval=st.sampled_from([None, None, 1, 3]))
    def refresh(self, which: str, interval: int | None) -> None:
        due = self.model.due(which)
        result = self._refresh(which, publication_interval_rows=interval)
        for key in due:
            self.model.compute(which, key)
        assert self.calls[which].take() == Counter(due)
        assert (result.rows_assigned, result.rows_remaining) == (len(due), 0)
        assert result.version == self.table.version
        self._check()

    @rule(which=st.sampled_from(["y", "side"]), residue=residues)
    def refresh_where(self, which: str, residue: tuple[int, int]) -> None:
        matching = self.model.matching(residue)
        result = self._refresh(which, where=f"key % {residue[0]} = {residue[1]}")
        for key in matching:
            self.model.compute(which, key)
        assert self.calls[which].take() == Counter(matching)
        assert (result.rows_assigned, result.rows_remaining) == (len(matching), len(self.model.due(which)))
        self._check()

    @rule()
    def tell_the_state(self) -> None:
        found = {
            one.column: (one.fresh_rows, one.stale_rows, one.failed_rows, one.never_computed_rows)
            for one in self.table.columns_status()
        }
        assert found == {self._name_of(which): self.model.states(which) for which in ("y", "side")}

    # Between the two

    def _check(self) -> None:
        """Every row is there once, with its values; a stale value stays what it was."""
        for which in ("y", "side"):
            wanted = {key: getattr(row, which).value for key, row in self.model.rows.items()}
            assert by_key(self.table, self._name_of(which)) == wanted
        assert by_key(self.table, self.model.x_name) == {key: row.x for key, row in self.model.rows.items()}
        assert by_key(self.table, "other") == {key: row.other for key, row in self.model.rows.items()}
        self.tell_the_state()
        self._note()

    def _note(self) -> None:
        self.versions[self.table.version] = deepcopy(self.model)

    def _refresh(self, which: str, **options: Any) -> RefreshResult:
        """Refresh without showing progress."""
        return self.table.refresh_column_async(self._name_of(which), **options).wait()

    def _name_of(self, which: str) -> str:
        return self.model.y_name if which == "y" else "side"

    def _function(self, which: str, times: int) -> Any:
        return noting(self.calls[which], f"{which}_function", times=times)

    def _append(self, rows: dict[int, int | None]) -> None:
        if rows:
            self.table.add(self._data(rows))
            self.model.rows |= {key: Row(x) for key, x in rows.items()}

    def _data(self, rows: dict[int, int | None]) -> pa.Table:
        schema = pa.schema([("key", pa.int64()), (self.model.x_name, pa.int64()), ("other", pa.string())])
        return pa.table([list(rows), list(rows.values()), ["o"] * len(rows)], schema=schema)


@pytest.fixture
def machine() -> Iterator[type[History]]:
    """A machine whose examples share a database, and so one warm worker for each Function version."""
    with short_folder() as folder, open_database(folder) as opened:

        class Here(History):
            database = opened
            calls: ClassVar[dict[str, Calls]] = {which: Calls(folder / which) for which in ("y", "side")}

        yield Here


def test_calls_are_exactly_for_the_rows_that_need_them_whatever_the_history(machine: type[History]) -> None:
    usual = settings(max_examples=100, stateful_step_count=40, derandomize=True, deadline=None)
    long = settings(max_examples=1500, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(machine, settings=long if FULL else usual)
