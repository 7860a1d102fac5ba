"""What a refresh of a view would do, and why: decided before anything is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lancegpu_sql.catalog.models import FunctionVersion, utc_now
from lancegpu_sql.errors import FunctionNotFound
from lancegpu_sql.refresh.request import Mode
from lancegpu_sql.refresh.views.by_rows import RowsToDo, rows_to_do
from lancegpu_sql.refresh.views.failed_calls import failed_of, rows_of
from lancegpu_sql.refresh.views.model import SourceState, View, ViewState, joined
from lancegpu_sql.refresh.views.rewritten import compactions_since
from lancegpu_sql.refresh.views.sources import PinnedTables, marks_of, state_of
from lancegpu_sql.sql.names import fold
from lancegpu_sql.tables import Snapshot, TableStore


@dataclass(frozen=True)
class RefreshPlan:
    """What a refresh does.

    Attributes
    ----------
    mode, reason
        How it is done and why, in words for people.
    sources
        What it reads.
    state
        What the view's rows are made of afterwards.
    todo
        Row by row: which rows; None where the query runs again, or nothing is done.
    """

    mode: Mode
    reason: str
    sources: Mapping[str, Snapshot]
    state: ViewState
    todo: RowsToDo | None = None


def plan_refresh(
    view: View,
    pinned: PinnedTables,
    known: Mapping[str, FunctionVersion],
    *,
    full: bool = False,
    retry_failed: bool = False,
) -> RefreshPlan:
    """Decide how to bring a view up to date; of its sources only what may have changed is read.

    Parameters
    ----------
    full
        Compute all rows.
    retry_failed
        Make the calls again that failed in an earlier refresh.

    Raises
    ------
    TableNotFound, ColumnNotFound, FunctionNotFound
        Something that the view needs is gone.
    """
    definition = view.definition
    sources = {name: pinned.pin(name) for name in definition.reads}
    state = present_state(view, pinned, known)
    changed = changed_sources(view, state.sources, sources)
    failed = {} if view.state is None or not retry_failed else failed_of(view.state.failed)
    if not full and view.state is not None and not definition.volatile and not changed and not failed:
        if view.state.functions == state.functions:
            return RefreshPlan("no_op", "no source has changed", sources, state)
        changed = tuple(name for name, digest in state.functions.items() if view.state.functions.get(name) != digest)
    why = _why(view, changed, full=full, again=bool(failed))
    if definition.way == "query":
        told = f"the query runs again, for {definition.reason}{'' if why == definition.reason else f': {why}'}"
        return RefreshPlan("full", told, sources, state)
    (source,) = sources.values()
    key = digest_key(view, state.functions)
    again = rows_of(failed) if failed else np.empty(0, dtype=np.uint64)
    todo = rows_to_do(view, source, definition.reads[source.name], key, full=full or view.state is None, again=again)
    mode: Mode = "full" if todo.computed is None and todo.computed_rows else "incremental"
    if todo.nothing:
        return RefreshPlan("no_op", "no row that it reads has changed", sources, state, todo)
    return RefreshPlan(mode, why, sources, state, todo)


def has_news(tables: TableStore, view: View, functions: Iterable[FunctionVersion]) -> bool:
    """Tell whether a refresh would find something to do, by what is known without reading rows."""
    if view.state is None or view.definition.volatile:
        return True
    pinned = PinnedTables(tables)
    present = present_state(view, pinned, {fold(version.name): version for version in functions})
    return bool(changed_sources(view, present.sources, pinned.seen)) or present.functions != view.state.functions


def digest_key(view: View, functions: Mapping[str, str]) -> bytes:
    """Return the key of the digests of source rows: of two equal ones the query and its Functions were the same, too."""
    digest = hashlib.blake2b(view.key, digest_size=16, person=b"lancegpu-rows-of")
    for name, version in sorted(functions.items()):
        digest.update(f"{name}\0{version}\0".encode())
    return digest.digest()


def changed_sources(
    view: View, present: Mapping[str, SourceState], snapshots: Mapping[str, Snapshot]
) -> tuple[str, ...]:
    """Return the sources whose rows are not those that the last refresh read; a compaction changes none."""
    noted = {} if view.state is None else view.state.sources
    return tuple(
        name
        for name, state in present.items()
        if name not in noted
        or (
            noted[name].mark != state.mark
            and not compactions_since(snapshots[name], view.definition.reads[name], noted[name])
        )
    )


def present_state(view: View, pinned: PinnedTables, known: Mapping[str, FunctionVersion]) -> ViewState:
    """Return what a view's rows would be made of if it were refreshed now."""
    definition = view.definition
    sources = {name: pinned.pin(name) for name in definition.reads}
    missing = [name for name in definition.functions if name not in known]
    if missing:
        raise FunctionNotFound(
            f"View {view.name!r} calls {missing[0]}(), and there is no such Function any more: register it again.",
            function=missing[0],
        )
    functions = {name: known[name].digest for name in definition.functions}
    fragments = ""
    if definition.way == "rows":
        (source,) = sources.values()
        marks = marks_of(source, definition.reads[source.name], digest_key(view, functions))
        fragments = joined(marks.values())
    return ViewState(
        sources={name: state_of(source, definition.reads[name]) for name, source in sources.items()},
        functions=functions,
        fragments=fragments,
        refreshed_at=utc_now(),
    )


def _why(view: View, changed: tuple[str, ...], *, full: bool, again: bool) -> str:
    if full:
        return "it is asked to be full"
    if view.state is None:
        return "it was never refreshed"
    if changed:
        return f"{' and '.join(changed)} changed"
    if again:
        return "what failed is tried again"
    return f"{view.definition.volatile[0]} may be another one each time"
