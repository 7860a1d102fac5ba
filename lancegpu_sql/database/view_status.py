"""How materialized views stand, and what a refresh of one would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import NotFound
from lancegpu_sql.refresh.views.model import View, ViewState, open_view


@dataclass(frozen=True)
class ViewStatus:
    """How a view stands.

    Attributes
    ----------
    state
        ``fresh``; ``stale``: a source or a Function has changed; ``empty``: it was never refreshed; or ``volatile``: its
        query may give something else each time, so that it is never known to be fresh.
    reason
        Which source has changed, and by how many versions; and what is volatile.
    behind
        By source that has changed: by how many versions.
    rows, version
        How many rows it has, and its table's version.
    refreshed_at
        When its last refresh read its sources; None before the first.
    source_versions
        The versions of the sources that its rows are made of.
    calls_failed
        Calls of Functions that it has no value of, for they failed; see `MaterializedView.errors`.
    """

    view: str
    state: Literal["fresh", "stale", "empty", "volatile"]
    reason: str | None
    behind: Mapping[str, int]
    rows: int
    version: int
    refreshed_at: datetime | None
    source_versions: Mapping[str, int]
    calls_failed: int = 0


def status_of(services: Services, view: View) -> ViewStatus:
    """Return how a view stands."""
    behind: dict[str, int] = {}
    reason: str | None = None
    state: Literal["fresh", "stale", "empty", "volatile"] = "fresh"
    if view.state is None:
        state, reason = "empty", "it was never refreshed to its end"
    else:
        behind, told = _changes(services, view, view.state)
        volatile = [f"{one} may be another one each time" for one in view.definition.volatile[:1]]
        if told or volatile:
            state, reason = "stale" if told else "volatile", "; ".join([*told, *volatile])
    return ViewStatus(
        view=view.name,
        state=state,
        reason=reason,
        behind=behind,
        rows=view.snapshot.count_rows(),
        version=view.snapshot.version,
        refreshed_at=None if view.state is None else view.state.refreshed_at,
        source_versions={} if view.state is None else {name: one.version for name, one in view.state.sources.items()},
        calls_failed=0 if view.state is None else view.state.calls_failed,
    )


def explained(services: Services, name: str) -> dict[str, Any]:
    """Return what a refresh would do, and why; no Function is called.

    Raises
    ------
    ViewNotFound, TableNotFound, FunctionNotFound
    StaleInput
        It would be refused.
    """
    from lancegpu_sql.refresh.views.expecting import expect  # it loads DuckDB

    view = open_view(services.tables, name)
    return asdict(expect(services.refresh_resources(), view, functions_of(services)))


def functions_of(services: Services) -> Any:
    """Return the Functions of a database, as its queries have them."""
    from lancegpu_sql.database.query_runs import QueryRuns  # it loads DuckDB

    return QueryRuns(services)


def _changes(services: Services, view: View, noted: ViewState) -> tuple[dict[str, int], list[str]]:
    """The sources that have changed, by how many versions, and all that has, in words; what is gone, too."""
    from lancegpu_sql.refresh.views.plan import changed_sources, present_state  # it loads DuckDB
    from lancegpu_sql.refresh.views.sources import PinnedTables

    pinned = PinnedTables(services.tables)
    try:
        present = present_state(view, pinned, functions_of(services).known())
    except NotFound as exc:
        return {}, [exc.message]
    behind = {
        name: present.sources[name].version - (noted.sources[name].version if name in noted.sources else 0)
        for name in changed_sources(view, present.sources, pinned.seen)
    }
    others = [name for name, digest in present.functions.items() if noted.functions.get(name) != digest]
    told = [f"{name} is {versions:,} version{'s' * (versions != 1)} ahead" for name, versions in behind.items()]
    return behind, told + [f"{name}() is another version" for name in others]
