"""Errors as people read them."""

from __future__ import annotations

import pytest

from lancegpu_sql.jobs.errors import Errors, RowError, message_pattern


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("ValueError: no negative numbers: -17", "ValueError: no negative numbers: …"),
        ("KeyError: 'title'", "KeyError: …"),
        ("FileNotFoundError: [Errno 2] No such file: '/data/a b.png'", "FileNotFoundError: [Errno …] No such file: …"),
        ("OSError: cannot read /data/images/1.png today", "OSError: cannot read … today"),
        (
            "JSONDecodeError: Expecting value: line 1 column 17 (char 16)\nmore",
            "JSONDecodeError: Expecting value: line … column … (char …)",
        ),
        ("RuntimeError: at 0x7f12ab for utf8", "RuntimeError: at … for utf8"),
        ("", ""),
    ],
)
def test_messages_of_one_kind_share_a_pattern(message: str, pattern: str) -> None:
    assert message_pattern(message) == pattern


def test_errors_are_grouped_the_largest_group_first() -> None:
    def error(owner: str, message: str, row: int) -> RowError:
        return RowError("job", owner, "ValueError", message, None, row_id=row)

    errors = Errors(
        [error("input", "killed 1", 1), error("user", "bad 1", 2), error("user", "bad 22", 3)], truncated=True
    )
    assert [(one.owner, one.pattern, one.rows, one.example.row_id) for one in errors.groups()] == [
        ("user", "bad …", 2, 2),
        ("input", "killed …", 1, 1),
    ]
    assert repr(Errors(errors[:1], truncated=False)) == "<1 error: 1 × input: killed …>"
    assert repr(errors) == "<3 errors, and more that are not kept: 2 × user: bad …; 1 × input: killed …>"
