"""The reasons for which a test may be skipped.

A skip without one of them is a failure everywhere; with ``CI=true`` one that `EXPECTED_IN_CI` lacks is a failure too,
so that a suite can never go quiet by itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


class Skip(StrEnum):
    """Give one to ``pytest.skip`` or ``pytest.mark.skipif(..., reason=...)``; words may follow it."""

    NEEDS_GPU = "needs a GPU"
    NEEDS_NETWORK = "needs a network"
    NEEDS_CLUSTER = "needs a Kubernetes cluster"
    NEEDS_ROOT = "needs root"
    NEEDS_LINUX = "needs Linux"
    NEEDS_PYTHON = "needs a second Python"
    NEEDS_LONG_RUN = "runs in make test-full only"
    NOTHING_TO_RUN = "nothing to run yet"


EXPECTED_IN_CI = frozenset({Skip.NEEDS_GPU, Skip.NEEDS_ROOT, Skip.NEEDS_PYTHON, Skip.NEEDS_LONG_RUN})


def refusal(reason: str, *, in_ci: bool) -> str | None:
    """Why a skip with this reason is a failure; None where it is not one."""
    known = next((skip for skip in Skip if reason.startswith(skip)), None)
    if known is None:
        return f"skipped for a reason that tests/skips.py does not list: {reason!r}"
    if in_ci and known not in EXPECTED_IN_CI:
        return f"skipped in CI, where that is not expected: {reason!r}"
    return None


def nothing() -> ParameterSet:
    """What to parametrize with where a folder holds nothing to run; at a desk that is no failure."""
    return pytest.param(None, marks=pytest.mark.skip(reason=str(Skip.NOTHING_TO_RUN)))
