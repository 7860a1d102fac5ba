"""Why rows failed: of a job, of a column's rows that are failed now, and of what a view has no value for."""

from __future__ import annotations

from collections.abc import Iterable

from lancegpu_sql.apply.digest import to_array
from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.services import Services
from lancegpu_sql.jobs.errors import Errors, RowError, of_failed_job, of_record
from lancegpu_sql.refresh.current import failed_rows
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.tables.snapshot import Snapshot

_MOST_OF_COLUMN = 100_000


def errors_of_job(catalog: Catalog, job: JobRecord, most: int) -> Errors:
    """Return why rows of a job failed, and why it did, if it did."""
    kept = catalog.row_errors_of_job(job.id, most + 1)
    ended_by = of_failed_job(job)
    return Errors([*([] if ended_by is None else [ended_by]), *map(of_record, kept[:most])], truncated=len(kept) > most)


def errors_of_column(services: Services, snapshot: Snapshot, column: str) -> Errors:
    """Return why those rows failed that are failed now, in the order of the table.

    Raises
    ------
    ColumnNotFound
        There is no computed column of that name.
    """
    target = find_target(snapshot, column)
    known: dict[tuple[int, str], RowError] = {}
    for record in services.catalog.row_errors_of_column(target.table, target.proof_column, _MOST_OF_COLUMN):
        known.setdefault((record.row_id, record.digest), of_record(record))
    found: list[RowError] = []
    truncated = False
    for row_ids, digests in failed_rows(snapshot, target, services.catalog):
        texts = [digest.hex() for digest in to_array(digests).to_pylist()]
        of_rows = [known.get(key) for key in zip(row_ids.tolist(), texts, strict=True)]
        found.extend(error for error in of_rows if error is not None)
        truncated = truncated or None in of_rows
    return Errors(found, truncated=truncated)


def errors_of_view(services: Services, view: View) -> Errors:
    """Return why those calls failed that a view has no value of, one for each row of its source that they were made for.

    Where its query runs again, one for each input.
    """
    from lancegpu_sql.refresh.views.failed_calls import error_place, failed_of  # it loads DuckDB

    by_row = view.definition.way == "rows"
    found: list[RowError] = []
    truncated = False
    for group, calls in failed_of({} if view.state is None else view.state.failed).items():
        known: dict[tuple[int | None, str], RowError] = {}
        place = error_place(group, by_row=by_row)
        for record in services.catalog.row_errors_of_column(view.name, place, _MOST_OF_COLUMN):
            known.setdefault((record.row_id if by_row else None, record.digest), of_record(record))
        texts = [digest.hex() for digest in to_array(calls.digests).to_pylist()]
        rows = calls.rows.tolist() if by_row else [None] * len(texts)
        of_calls = [known.get(key) for key in zip(rows, texts, strict=True)]
        found.extend(error for error in of_calls if error is not None)
        truncated = truncated or None in of_calls
    return Errors(sorted(found, key=lambda error: error.row_id or 0), truncated=truncated)


def errors_of_table(services: Services, snapshot: Snapshot, columns: Iterable[str]) -> list[tuple[str, RowError]]:
    """Return the errors of several computed columns, each with its column; of siblings, which fail together, once."""
    found: list[tuple[str, RowError]] = []
    seen: set[str] = set()
    for column in columns:
        proof = find_target(snapshot, column).proof_column
        if proof not in seen:
            seen.add(proof)
            found.extend((column, error) for error in errors_of_column(services, snapshot, column))
    return found
