"""Errors of a job or of a column as people read them: one by one, and grouped by owner and by what their messages share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lancegpu_sql.catalog.models import INPUTS_OF, JobRecord, RowErrorRecord

_PATTERN_CHARACTERS = 200

_VARIABLE_PARTS = re.compile(
    r"""'[^'\n]*'|"[^"\n]*"|`[^`\n]*`            # what is quoted
    |0x[0-9a-fA-F]+                             # addresses
    |\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    |(?<![A-Za-z])[-+]?\d+(?:[.,:_/-]\d+)*(?:[eE][-+]?\d+)?
    |(?:/[^\s/:'"]+){2,}/?""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class RowError:
    """Why a row has no value, or why a job failed.

    `owner` is whose fault it is: ``user`` (the Function raised on the row), ``input`` (the row ends the worker that computes
    it), and, where the job failed, ``function``, ``device``, ``memory``, ``environment``, ``timeout`` or ``ours``. `row_id`
    and `digest` (of what the row was computed from, in hex) are None where no single row is at fault; `arguments` are kept
    only of the row that ended a job.
    """

    job_id: str
    owner: str | None
    error_type: str
    message: str
    traceback: str | None
    row_id: int | None = None
    digest: str | None = None
    arguments: Any = None
    table: str | None = None
    function: str | None = None
    version: int | None = None
    tries: int | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class ErrorGroup:
    """Errors of one owner whose messages differ in numbers, quotations and paths only; `pattern` has `…` in their place."""

    owner: str | None
    error_type: str
    pattern: str
    rows: int
    example: RowError


class Errors(Sequence[RowError]):
    """Errors, each of another row.

    Attributes
    ----------
    truncated
        Whether there are more: of the rows of one job only so many are kept (setting `job_errors_kept`), and those of jobs
        that ended long ago are forgotten.
    """

    def __init__(self, errors: Sequence[RowError], *, truncated: bool) -> None:
        self._errors = tuple(errors)
        self.truncated = truncated

    def __len__(self) -> int:
        return len(self._errors)

    def __getitem__(self, index: Any) -> Any:
        return self._errors[index]

    def __iter__(self) -> Iterator[RowError]:
        return iter(self._errors)

    def __repr__(self) -> str:
        groups = "; ".join(f"{one.rows} × {one.owner}: {one.pattern}" for one in self.groups()[:5])
        more = ", and more that are not kept" if self.truncated else ""
        return f"<{len(self)} error{'' if len(self) == 1 else 's'}{more}{': ' if groups else ''}{groups}>"

    def groups(self) -> list[ErrorGroup]:
        """Return the errors by owner, type and pattern of message, the largest group first."""
        found: dict[tuple[str | None, str, str], list[RowError]] = {}
        for error in self._errors:
            found.setdefault((error.owner, error.error_type, message_pattern(error.message)), []).append(error)
        groups = [ErrorGroup(*key, rows=len(errors), example=errors[0]) for key, errors in found.items()]
        return sorted(groups, key=lambda group: -group.rows)


def message_pattern(message: str) -> str:
    """Return what messages of one kind share: the first line, `…` standing for numbers, quotations and paths."""
    lines = message.splitlines()
    first = lines[0] if lines else ""
    return _VARIABLE_PARTS.sub("…", first[: 4 * _PATTERN_CHARACTERS])[:_PATTERN_CHARACTERS]


def of_record(record: RowErrorRecord) -> RowError:
    """Return a row's error as it was kept."""
    return RowError(
        job_id=record.job_id,
        owner=record.owner,
        error_type=record.error_type,
        message=record.message,
        traceback=record.traceback or None,
        row_id=None if record.proof_column.startswith(INPUTS_OF) else record.row_id,
        digest=record.digest,
        table=record.table,
        function=record.function,
        version=record.version,
        tries=record.tries,
        at=record.at,
    )


def of_failed_job(job: JobRecord) -> RowError | None:
    """Return what ended a job; None where it did not fail."""
    error = job.error
    if error is None:
        return None
    facts: Mapping[str, Any] = error.get("facts") or {}
    row_id = facts.get("row_id")
    return RowError(
        job_id=job.id,
        owner=facts.get("owner") or ("ours" if error.get("traceback") else None),
        error_type=facts.get("error_type") or error.get("type") or "unknown",
        message=str(error.get("message", "")),
        traceback=facts.get("user_traceback") or error.get("traceback"),
        row_id=row_id if isinstance(row_id, int) else None,
        arguments=facts.get("arguments"),
        table=job.table,
        function=facts.get("function"),
        version=facts.get("version"),
        at=job.finished_at,
    )
