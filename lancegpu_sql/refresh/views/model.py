"""What a view is and what its rows were made of, as both stand in the metadata of its table."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lancegpu_sql.errors import InvalidData, ViewNotFound
from lancegpu_sql.tables import Fragment, Snapshot, TableStore
from lancegpu_sql.tables.naming import is_table_name
from lancegpu_sql.tables.views import STATE_KEY, VIEW_KEY, view_text

_MARK_BYTES = 9  # as text 12 characters: of a million fragments two are alike once in some thousand databases

Way = Literal["rows", "query"]


class ViewDefinition(BaseModel):
    """A view's query and what is known of it.

    Attributes
    ----------
    query
        As it was written.
    functions
        The folded names of the Functions that it calls.
    way
        ``rows``: each of its rows is made of one row of one table, and a refresh computes those that changed; ``query``:
        it runs again.
    reason
        Why it is not of the first kind.
    reads
        The tables and views that it reads, and which of their columns.
    volatile
        What in it may give something else each time, so that it always runs.
    created_at
        When it was made.
    """

    model_config = ConfigDict(frozen=True)

    query: str
    functions: tuple[str, ...] = ()
    way: Way
    reason: str | None = None
    reads: dict[str, tuple[str, ...]]
    volatile: tuple[str, ...] = ()
    created_at: datetime


class SourceState(BaseModel):
    """A source as a refresh read it: its version, and what stands for all its rows at once."""

    model_config = ConfigDict(frozen=True)

    version: int
    mark: str


class ViewState(BaseModel):
    """What a view's rows were made of.

    Attributes
    ----------
    sources
        By name.
    functions
        The digests of the Functions' versions by folded name.
    fragments
        With ``rows``: what stands for each fragment of the source, one behind the other.
    refreshed_at
        When.
    refreshed_by
        The job that did it.
    failed
        The calls that have no value, for they failed; see `lancegpu_sql.refresh.views.failed_calls`.
    calls_failed
        How many these are.
    """

    model_config = ConfigDict(frozen=True)

    sources: dict[str, SourceState]
    functions: dict[str, str]
    fragments: str = ""
    refreshed_at: datetime
    refreshed_by: str = ""
    failed: dict[str, str] = {}
    calls_failed: int = 0

    @property
    def fragment_marks(self) -> frozenset[bytes]:
        """What stands for each fragment."""
        joined = base64.b64decode(self.fragments)
        return frozenset(joined[at : at + _MARK_BYTES] for at in range(0, len(joined), _MARK_BYTES))


class View:
    """A view at one version of its table."""

    def __init__(self, snapshot: Snapshot, definition: ViewDefinition, state: ViewState | None) -> None:
        self.snapshot = snapshot
        self.definition = definition
        self.state = state

    @property
    def name(self) -> str:
        """Its name."""
        return self.snapshot.name

    @property
    def key(self) -> bytes:
        """With ``rows``: the key of the digests of source rows, without the Functions that it calls."""
        return hashlib.blake2b(self.definition.query.encode(), digest_size=16, person=b"lancegpu-view").digest()


def view_of(snapshot: Snapshot) -> View | None:
    """Return the view that a table is; None for another table.

    Raises
    ------
    InvalidData
        Its definition cannot be read: a newer release wrote it.
    """
    text = view_text(snapshot.full_schema)
    if text is None:
        return None
    try:
        definition = ViewDefinition.model_validate_json(text)
        state = view_text(snapshot.full_schema, STATE_KEY)
        return View(snapshot, definition, None if state is None else ViewState.model_validate_json(state))
    except ValidationError as exc:
        raise InvalidData(
            f"The definition of view {snapshot.name!r} cannot be read; a newer release may have made it.",
            view=snapshot.name,
        ) from exc


def open_view(tables: TableStore, name: str) -> View:
    """Return a view at its latest version.

    Raises
    ------
    ViewNotFound
        There is none of that name, or it is a table.
    """
    snapshot = tables.open(name) if is_table_name(name) and tables.exists(name) else None
    found = None if snapshot is None else view_of(snapshot)
    if found is None:
        told = "it is a table" if snapshot is not None else "SHOW MATERIALIZED VIEWS lists those there are"
        raise ViewNotFound(f"There is no materialized view {name!r}: {told}.", view=name)
    return found


def metadata_of(definition: ViewDefinition | None = None, state: ViewState | None = None) -> Mapping[str, str]:
    """Return what stands in the metadata of a view's schema."""
    found = {}
    if definition is not None:
        found[VIEW_KEY] = definition.model_dump_json()
    if state is not None:
        found[STATE_KEY] = state.model_dump_json()
    return found


def fields_of(snapshot: Snapshot, columns: Iterable[str]) -> frozenset[int]:
    """Return the ids of the fields in which the data of some columns stands."""
    return frozenset(leaf for name in columns for leaf in snapshot.leaves[snapshot.field_id(name)])


def fragment_mark(fragment: Fragment, field_ids: frozenset[int], key: bytes, *, deletions: bool = True) -> bytes:
    """Return what changes whenever a row of a fragment, or a value of it in some fields, may be another one.

    Lance's data files never change and never share a name, and a set of deleted rows has a name of its own; without
    `deletions` it stands for the rows that the fragment would have if none were deleted.
    """
    digest = hashlib.blake2b(key, digest_size=_MARK_BYTES, person=b"lancegpu-marks")
    files = [(file.path, sorted(field_ids.intersection(file.field_ids))) for file in fragment.files]
    # A fragment keeps its rows as long as it keeps a file. Where none holds what is read, any of them tells them apart.
    for path, held in sorted([(path, held) for path, held in files if held] or files):
        digest.update(f"{path}\0{held}\0".encode())
    digest.update(f"{fragment.physical_rows}\0{fragment.deletions if deletions else None}".encode())
    return digest.digest()


def joined(marks: Iterable[bytes]) -> str:
    """Return marks as text."""
    return base64.b64encode(b"".join(sorted(marks))).decode()


def whole_mark(marks: Iterable[bytes]) -> str:
    """Return what stands for all fragments at once."""
    return hashlib.blake2b(b"".join(sorted(marks)), digest_size=16).hexdigest()
