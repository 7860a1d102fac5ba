"""The catalog's errors of rows: why each failed, for as long as the job that tried it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.models import RowErrorDraft, RowErrorRecord, utc_now
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schema import row_errors

_AT_ONCE = 500
"""Row ids in one statement: databases bound its parameters."""


class RowErrorStore:
    """Errors of rows, by job and by column."""

    _connection: CatalogConnection

    def add_row_errors(self, job_id: str, drafts: Sequence[RowErrorDraft], most: int) -> int:
        """Keep errors of a job, in the place of earlier ones of the same rows, up to `most` of them in all.

        Returns how many of the job are kept now.
        """
        mine = row_errors.c.job_id == job_id
        with self._connection.writing() as connection:
            for some in _batches(drafts):
                ids = [draft.row_id for draft in some]
                columns = {draft.proof_column for draft in some}
                same = mine & row_errors.c.row_id.in_(ids) & row_errors.c.proof_column.in_(columns)
                connection.execute(row_errors.delete().where(same))
            kept: int = connection.execute(sa.select(sa.func.count()).where(mine)).scalar_one()
            new = [{**draft.model_dump(), "job_id": job_id, "at": utc_now()} for draft in drafts[: max(0, most - kept)]]
            if new:
                connection.execute(row_errors.insert(), new)
        return kept + len(new)

    def row_errors_of_job(self, job_id: str, limit: int) -> list[RowErrorRecord]:
        """Return a job's errors in the order in which rows failed."""
        return self._row_errors(
            sa.select(row_errors).where(row_errors.c.job_id == job_id).order_by(row_errors.c.id), limit
        )

    def row_errors_of_column(self, table: str, proof_column: str, limit: int) -> list[RowErrorRecord]:
        """Return the errors of a column's rows, newest first; a row may have several, of several jobs."""
        of_column = (row_errors.c.table == table) & (row_errors.c.proof_column == proof_column)
        return self._row_errors(sa.select(row_errors).where(of_column).order_by(row_errors.c.id.desc()), limit)

    def _row_errors(self, query: sa.Select[tuple[object, ...]], limit: int) -> list[RowErrorRecord]:
        with self._connection.reading() as connection:
            rows = connection.execute(query.limit(limit)).mappings()
            return [value_of(RowErrorRecord, dict(row), table="row_errors", id=row["id"]) for row in rows]


def _batches(drafts: Sequence[RowErrorDraft]) -> Iterable[Sequence[RowErrorDraft]]:
    return (drafts[start : start + _AT_ONCE] for start in range(0, len(drafts), _AT_ONCE))
