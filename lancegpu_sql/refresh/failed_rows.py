"""The rows that fail in a refresh: counted, bounded, and kept with why they did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lancegpu_sql.apply import Computed, RowFailure
from lancegpu_sql.catalog.models import RowErrorDraft
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import CatalogError, TooManyFailedRows
from lancegpu_sql.refresh.request import CallOptions
from lancegpu_sql.refresh.target import Target

_FLUSH_ROWS = 100
_MESSAGE_CHARACTERS = 2_000
_TRACEBACK_CHARACTERS = 10_000
_DIGEST_COLUMN = 2
"""Of a tag: `(address, row_id, digest)`."""


@dataclass(frozen=True)
class Subject:
    """Whose rows fail: `told` in words for people, as in “3 rows of docs.vec failed under embed version 2”, and in `facts`."""

    told: str
    facts: dict[str, Any] = field(default_factory=dict)


class FailedRows:
    """Rows without a value of one refresh.

    Parameters
    ----------
    catalog
        Where it is kept why they failed.
    job_id
        The job that tried them.
    options
        How many may fail.
    most_kept
        For how many rows of the job it is kept why.
    """

    def __init__(self, catalog: Catalog, job_id: str, options: CallOptions, most_kept: int) -> None:
        self._catalog = catalog
        self._job_id = job_id
        self._options = options
        # One more tells that there are more.
        self._most = most_kept + 1
        self._kept = 0
        self._waiting: list[RowErrorDraft] = []
        self.rows = 0
        """How many failed so far."""

    def add(self, computed: Computed, target: Target) -> None:
        """Take note of the rows that failed among some that were computed."""
        for failure in computed.failed:
            self.rows += 1
            if self.has_room:
                digest = computed.tag.column(_DIGEST_COLUMN)[failure.index].as_py()
                row_id = computed.tag.column(1)[failure.index].as_py()
                declaration = target.declaration
                proved = (target.table, target.proof_column, row_id, digest)
                self.keep(draft_of(failure, *proved, declaration.function, declaration.version))

    @property
    def has_room(self) -> bool:
        """Whether it is kept of one more row why it failed."""
        return self._kept + len(self._waiting) < self._most

    def keep(self, draft: RowErrorDraft) -> None:
        """Keep why a row failed."""
        self._waiting.append(draft)
        if len(self._waiting) >= _FLUSH_ROWS:
            try:
                self.flush()
            except CatalogError:
                return  # it is busy; before rows are published they are kept, or nothing is published

    def flush(self) -> None:
        """Keep what is not kept yet.

        Raises
        ------
        CatalogError
            The catalog refused; the next flush tries again.
        """
        if self._waiting:
            self._kept = self._catalog.add_row_errors(self._job_id, self._waiting, self._most)
            self._waiting.clear()

    def check(self, subject: Subject, rows_to_compute: int | None) -> None:
        """Refuse to go on where more rows failed than may.

        Parameters
        ----------
        subject
            Whose rows these are.
        rows_to_compute
            Of this refresh, or more; None where that is not known yet.

        Raises
        ------
        TooManyFailedRows
        """
        most, fraction = self._options.max_failed_rows, self._options.max_failed_fraction
        if most is not None and self.rows > most:
            raise self._too_many(subject, rows_to_compute, f"max_failed_rows={most}")
        if fraction is not None and rows_to_compute is not None and self.rows > fraction * rows_to_compute:
            raise self._too_many(subject, rows_to_compute, f"max_failed_fraction={fraction:g}")

    def _too_many(self, subject: Subject, rows_to_compute: int | None, limit: str) -> TooManyFailedRows:
        of_all = "" if rows_to_compute is None else f" of {rows_to_compute:,}"
        return TooManyFailedRows(
            f"{self.rows:,}{of_all} {subject.told}, more than {limit} allows. Nothing more was published; what was computed is "
            "kept, and the next refresh uses it. "
            f"Why they failed: lancegpu jobs errors {self._job_id}, or db.get_job({self._job_id!r}).errors()",
            owner="user",
            rows_failed=self.rows,
            rows_tried=rows_to_compute,
            limit=limit,
            **subject.facts,
        )


def rows_of(target: Target) -> Subject:
    """Return the rows of a computed column as what fails."""
    declaration = target.declaration
    told = f"rows of {target.title} failed under {declaration.function} version {declaration.version}"
    return Subject(told, {"function": declaration.function, "version": declaration.version})


def draft_of(
    failure: RowFailure,
    table: str,
    proof_column: str,
    row_id: int,
    digest: bytes,
    function: str,
    version: int,
    *,
    arguments: str = "",
) -> RowErrorDraft:
    """Return what is kept of a failure.

    Parameters
    ----------
    table, proof_column, row_id, digest
        Of what, and what it was computed from; see `RowErrorDraft`.
    function, version
        What failed.
    arguments
        On what, where the row does not tell.
    """
    facts = failure.error.facts
    error_type = str(facts.get("error_type") or type(failure.error).__name__)
    raised = str(facts.get("raised") or failure.error.message)
    return RowErrorDraft(
        table=table,
        proof_column=proof_column,
        row_id=row_id,
        digest=digest.hex(),
        function=function,
        version=version,
        owner=failure.owner,
        error_type=_clean(error_type, 200),
        message=_clean(f"{raised}\non {arguments}" if arguments else raised, _MESSAGE_CHARACTERS),
        traceback=_clean(str(facts.get("user_traceback") or ""), _TRACEBACK_CHARACTERS),
        tries=failure.tries,
    )


def _clean(text: str, most: int) -> str:
    """Cut a text, and take out what no database takes."""
    clean = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return clean if len(clean) <= most else f"{clean[: most // 2]} … {clean[-(most // 2) + 3 :]}"
