"""Every error that there is stands in the tree and in the docs."""

from __future__ import annotations

import re

from suites import TESTS

from lancegpu_sql import errors

PAGE = (TESTS.parent / "docs" / "errors.md").read_text()
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}


def test_every_error_is_drawn_in_the_tree() -> None:
    assert set(re.findall(r"\w+", str(errors.__doc__))) >= ERRORS


def test_every_error_is_told_in_the_docs() -> None:
    """But the two that are never raised themselves."""
    assert ERRORS - {"LanceGpuError", "PlacementError"} <= set(re.findall(r"`(\w+)`", PAGE))
