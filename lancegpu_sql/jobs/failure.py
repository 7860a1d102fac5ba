"""What the catalog keeps of an error: its type, message and facts; a traceback only where the fault is ours."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from pydantic import BaseModel

from lancegpu_sql.errors import JobFailed, LanceGpuError

_TEXT_LIMIT = 20_000
_ITEM_LIMIT = 100
_DEPTH_LIMIT = 6


def error_record(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON.

    An error of our own tree was foreseen and says what to do: its traceback helps nobody. Any other is a fault of this
    program, and its traceback is what a report needs.
    """
    if isinstance(error, LanceGpuError):
        return {
            "type": type(error).__name__,
            "message": _short(error.message),
            "facts": json_safe(error.facts),
        }
    return {
        "type": type(error).__qualname__,
        "message": _short(str(error) or type(error).__qualname__),
        "facts": {},
        "traceback": _short("".join(traceback.format_exception(error))),
    }


def job_failed(job_id: str, record: Mapping[str, Any] | None) -> JobFailed:
    """Return the error by which this process tells of another process's failed job."""
    record = record or {"type": "unknown", "message": "It left no error behind.", "facts": {}}
    return JobFailed(
        f"Job {job_id} failed: {record['message']}",
        job_id=job_id,
        error_type=record["type"],
        error_message=record["message"],
        error_facts=record.get("facts", {}),
        error_traceback=record.get("traceback"),
    )


def json_safe(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON that every database takes: what JSON has not becomes text, what is long is cut.

    Facts may hold a user's own values (the arguments of a row): they must neither fail the report nor fill the catalog.
    """
    match value:
        case None | bool() | int():
            return value if abs(value or 0) < 1 << 63 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _short(value)
        case BaseModel():
            return json_safe(value.model_dump(), depth)
        case datetime() | date():
            return value.isoformat()
        case _ if depth >= _DEPTH_LIMIT:
            return _text(value)
        case Mapping():
            items = list(value.items())[:_ITEM_LIMIT]
            return {_short(str(key)): json_safe(item, depth + 1) for key, item in items}
        case list() | tuple() | set() | frozenset():
            return [json_safe(item, depth + 1) for item in list(value)[:_ITEM_LIMIT]]
        case _:
            return _text(value)


def _text(value: Any) -> str:
    try:
        return _short(str(value))
    except Exception:
        return f"<{type(value).__qualname__}>"


def _short(text: str) -> str:
    # A lone surrogate and a NUL are text in Python, and in no database.
    clean = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return clean if len(clean) <= _TEXT_LIMIT else f"{clean[: _TEXT_LIMIT // 2]} … {clean[-_TEXT_LIMIT // 2 :]}"
