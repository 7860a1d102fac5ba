"""Calls of a view's Functions that failed: those that earlier refreshes left without a value, and those of this one."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply import RowFailure
from lancegpu_sql.apply.digest import Lanes, binding_key, row_digests, to_array
from lancegpu_sql.apply.failures import shown
from lancegpu_sql.catalog.models import INPUTS_OF, FunctionVersion
from lancegpu_sql.errors import RowFailed
from lancegpu_sql.query.bound import bound_values
from lancegpu_sql.query.picked import Numbers, are_in
from lancegpu_sql.refresh.failed_rows import FailedRows, Subject, draft_of

MOST_CALLS = 100_000
"""So many failed calls a view remembers, in 32 bytes of its metadata each; others are tried again where it runs again."""

_WORDS = 3  # of a call: the two of its digest, and the source row's id

NO_KEY = bytes(16)
"""Calls are told apart for each Function version by itself: nothing else than their arguments tells them apart."""


def call_group(version: FunctionVersion) -> str:
    """Return what the calls of a Function version have in common, with the values that its class is made with."""
    bound = bound_values(version)
    return f"{version.digest}-{binding_key(version.digest, bound).hex()}" if bound else version.digest


def error_place(group: str, *, by_row: bool) -> str:
    """Return under which `proof_column` errors of calls are kept, known by their source rows or by their arguments alone."""
    return f"rows of {group}" if by_row else f"{INPUTS_OF}{group}"


@dataclass(frozen=True)
class FailedCalls:
    """Some calls of one Function: the digests of their arguments and, row by row, the ids of the source rows, or else 0."""

    digests: Lanes
    rows: Numbers

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return what `text` was made of."""
        words = np.frombuffer(base64.b64decode(text), dtype="<u8").reshape(-1, _WORDS)
        return cls(words[:, :2], words[:, 2])

    @classmethod
    def joined(cls, some: Iterable[FailedCalls]) -> Self:
        """Return calls of several, each once, in their order."""
        found = [np.column_stack([one.digests, one.rows]) for one in some]
        words = np.unique(np.concatenate([np.empty((0, _WORDS), dtype=np.uint64), *found]), axis=0)
        return cls(words[:, :2], words[:, 2])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def text(self) -> str:
        """Of so many as are remembered."""
        words = np.column_stack([self.digests, self.rows])[:MOST_CALLS]
        return base64.b64encode(np.ascontiguousarray(words, dtype="<u8").tobytes()).decode()

    @cached_property
    def _known(self) -> frozenset[tuple[int, ...]]:
        return frozenset(zip(*self.digests.T.tolist(), self.rows.tolist(), strict=True))

    def among(self, digests: Lanes, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which of other calls are among these."""
        found = np.isin(digests[:, 0], self.digests[:, 0])
        for at in np.flatnonzero(found).tolist():
            found[at] = (int(digests[at, 0]), int(digests[at, 1]), int(rows[at])) in self._known
        return found

    def where(self, chosen: npt.NDArray[np.bool_]) -> FailedCalls:
        """Return some of these."""
        return FailedCalls(self.digests[chosen], self.rows[chosen])


Failed = Mapping[str, FailedCalls]
"""By `call_group`."""


def failed_of(texts: Mapping[str, str]) -> dict[str, FailedCalls]:
    """Return the failed calls that a view's state has."""
    return {group: FailedCalls.of_text(text) for group, text in texts.items()}


def texts_of(failed: Failed) -> dict[str, str]:
    """Return failed calls as a view's state has them."""
    return {group: calls.text for group, calls in sorted(failed.items()) if len(calls)}


def rows_of(failed: Failed) -> Numbers:
    """Return the source rows of calls, in ascending order."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *(calls.rows for calls in failed.values())]))


def left_of(failed: Failed, live: Numbers, computed: Numbers) -> dict[str, FailedCalls]:
    """Return those calls whose rows are still there and were not computed again; both ascend."""
    return {
        group: calls.where(are_in(calls.rows, live) & ~are_in(calls.rows, computed)) for group, calls in failed.items()
    }


class WhyFailed:
    """Why calls failed, as workers told of it; of as many as it is kept of."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._told: dict[tuple[str, bytes], tuple[RowFailure, str]] = {}

    def teller(self, version: FunctionVersion) -> Callable[[pa.RecordBatch, RowFailure], None]:
        """Return what takes note of a failure of a Function."""
        group = call_group(version)

        def tell(arguments: pa.RecordBatch, failure: RowFailure) -> None:
            if len(self._told) < self._most:
                (digest,) = to_array(row_digests(arguments, NO_KEY)).to_pylist()
                self._told[group, digest] = failure, shown(arguments)

        return tell

    def of(self, group: str, digest: bytes) -> tuple[RowFailure, str]:
        """Return why a call failed, and its arguments in words."""
        nothing = RowFailure(0, "user", RowFailed("it failed"), 1)
        return self._told.get((group, digest), (nothing, ""))


class CallFailures:
    """The failed calls of one refresh; any thread may tell of some.

    Parameters
    ----------
    view
        Its name.
    known
        Calls that have no value by earlier refreshes, and are not made again.
    skips
        Whether calls may fail.
    by_row
        Whether calls are known by their source rows, too.
    errors, why
        Where it is kept why they failed, and where that is known.
    """

    def __init__(
        self, view: str, known: Failed, *, skips: bool, by_row: bool, errors: FailedRows, why: WhyFailed
    ) -> None:
        self._view = view
        self._known = known
        self.by_row = by_row
        self._errors = errors
        self._why = why
        self._lock = threading.Lock()
        self._found: dict[str, list[FailedCalls]] = {}
        self._counted: set[object] = set()
        self.skips = skips
        self.rows_planned: int | None = None
        """How many rows the refresh computes, where that is known before."""

    @property
    def matters(self) -> bool:
        """Whether a call may be without a value."""
        return self.skips or bool(self._known)

    @property
    def rows(self) -> int:
        """How many rows failed in this refresh, or, where calls are not known by rows, how many inputs."""
        return len(self._counted)

    @property
    def subject(self) -> Subject:
        """Whose failures these are."""
        what = "source rows" if self.by_row else "inputs"
        return Subject(f"{what} of view {self._view} failed", {"view": self._view})

    def known_among(self, group: str, digests: Lanes, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which calls have no value by earlier refreshes, and take note that the view needs these."""
        known = self._known.get(group)
        if known is None:
            return np.zeros(len(digests), dtype=bool)
        found = known.among(digests, rows)
        if found.any():
            with self._lock:
                self._found.setdefault(group, []).append(FailedCalls(digests[found], rows[found]))
        return found

    def add(self, version: FunctionVersion, digests: Lanes, rows: Numbers) -> None:
        """Take note of calls that failed.

        Raises
        ------
        TooManyFailedRows
        """
        if not len(digests):
            return
        group = call_group(version)
        texts = to_array(digests).to_pylist()
        with self._lock:
            self._found.setdefault(group, []).append(FailedCalls(digests, rows))
            for digest, row in zip(texts, rows.tolist(), strict=True):
                self._keep(version, group, digest, row)
            self._errors.rows = len(self._counted)
            self._errors.check(self.subject, self.rows_planned)

    def found(self) -> dict[str, FailedCalls]:
        """Return the calls without a value that the refresh came upon, those known before among them."""
        with self._lock:
            return {group: FailedCalls.joined(some) for group, some in self._found.items()}

    def finish(self, calls_made: int) -> None:
        """Keep all that is to be kept, before anything is published.

        Raises
        ------
        TooManyFailedRows, CatalogError
        """
        if self.rows:
            self._errors.check(self.subject, calls_made if self.rows_planned is None else self.rows_planned)
            self._errors.flush()

    def _keep(self, version: FunctionVersion, group: str, digest: bytes, row: int) -> None:
        one: object = row if self.by_row else (group, digest)
        if one in self._counted and not self.by_row:
            return
        self._counted.add(one)
        if not self._errors.has_room:
            return
        failure, arguments = self._why.of(group, digest)
        place = error_place(group, by_row=self.by_row)
        # Errors of one place are known by numbers.
        number = row if self.by_row else int.from_bytes(digest[:8], "little") >> 1
        of_what = (self._view, place, number, digest, version.name, version.version)
        self._errors.keep(draft_of(failure, *of_what, arguments=arguments))
