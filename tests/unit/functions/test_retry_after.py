"""When to try again, as exceptions say it."""

from __future__ import annotations

import email.utils
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lancegpu_sql.functions.retry_after import retry_after_seconds


def error(**attributes: Any) -> BaseException:
    made = RuntimeError("busy")
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("attributes", "seconds"),
    [
        ({}, None),
        ({"retry_after": 2}, 2.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after": timedelta(minutes=1)}, 60.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": True}, None),
        ({"retry_after": float("nan")}, None),
        ({"retry_after": -3}, 0.0),
        ({"headers": {"Retry-After": "7"}}, 7.0),
        ({"response": SimpleNamespace(headers={"retry-after": "8"})}, 8.0),
        ({"response": SimpleNamespace(headers=None)}, None),
    ],
)
def test_seconds_are_found_where_libraries_put_them(attributes: dict[str, Any], seconds: float | None) -> None:
    assert retry_after_seconds(error(**attributes)) == seconds


def test_a_date_is_so_many_seconds_from_now() -> None:
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    found = retry_after_seconds(error(headers={"Retry-After": date}))
    assert found is not None
    assert 90 < found <= 100


def test_an_exception_whose_attributes_raise_says_nothing() -> None:
    class Hostile(Exception):
        @property
        def retry_after(self) -> float:
            raise SystemExit

    assert retry_after_seconds(Hostile()) is None
