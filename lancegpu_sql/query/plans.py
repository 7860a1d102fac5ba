"""What is kept of queries that are asked again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancegpu_sql.sql.call_reader import without_values
from lancegpu_sql.sql.functions_in_text import Signature, calls_in

if TYPE_CHECKING:  # a database has a place for plans before it has an engine
    from lancegpu_sql.query.proof import Stored
    from lancegpu_sql.query.tables import QueryTables
    from lancegpu_sql.sql.stages import QueryPlan
    from lancegpu_sql.tables.snapshot import Snapshot

_MOST = 256


@dataclass(frozen=True)
class KeptPlan:
    """A query's plan, and what was found out with it.

    Attributes
    ----------
    plan
        How it runs.
    columns
        The names and DuckDB types of its columns.
    names
        What its text has where a table can stand, whether there was one or not.
    made_of
        What the rest follows from beside the text, see `made_of`.
    """

    plan: QueryPlan
    columns: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    made_of: tuple[str, ...]


class Plans:
    """What was made last of each text. Safe for use by several threads."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, KeptPlan] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, text: str) -> KeptPlan | None:
        """Return what is kept of a query."""
        with self._lock:
            if text in self._plans:
                self._plans.move_to_end(text)
            return self._plans.get(text)

    def keep(self, text: str, made: KeptPlan) -> None:
        """Keep it, in place of what was made of the text before."""
        with self._lock:
            self._plans[text] = made
            self._plans.move_to_end(text)
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)


def made_of(
    text: str,
    signatures: Mapping[str, Signature],
    tables: QueryTables,
    stored: Callable[[Snapshot], Sequence[Stored]],
) -> tuple[str, ...]:
    """Return all that a query's plan and columns follow from, where a session has nothing of its own and a query no parameters.

    Parameters
    ----------
    signatures
        Those of all Functions, by folded name.
    tables
        The query's, opened.
    stored
        The computed columns of a table.
    """
    called = sorted({without_values(call.function) for call in calls_in(text, signatures)})
    return repr([signatures[name] for name in called]), repr(tables.schemas()), repr(tables.computed(stored))
