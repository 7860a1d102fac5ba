"""The suites, cheapest first, and the seconds each may take on two cores.

A folder of ``tests/`` is a suite. Budgets are for the eye: a run prints what was used of them, and does not fail.
Together they are what `make test` aims at: 25 minutes.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent

BUDGET_SECONDS = {
    "unit": 45.0,
    "cli": 90.0,
    "integration": 420.0,
    "server": 180.0,
    "kubernetes": 240.0,
    "browser": 120.0,
    "chaos": 420.0,
}


def suite_of(path: Path) -> str:
    """The suite a test file belongs to."""
    return path.resolve().relative_to(TESTS).parts[0]


def rank(suite: str) -> int:
    """Where a suite stands in a run; an unlisted one comes last."""
    names = list(BUDGET_SECONDS)
    return names.index(suite) if suite in names else len(names)


def report_lines(used_seconds: dict[str, float]) -> list[str]:
    """One line for each suite that ran: seconds used of its budget."""
    lines = []
    for suite in sorted(used_seconds, key=rank):
        used, budget = used_seconds[suite], BUDGET_SECONDS.get(suite)
        if budget is None:
            lines.append(f"{suite:<12} {used:7.1f} s   (no budget: give it one in tests/suites.py)")
        else:
            lines.append(f"{suite:<12} {used:7.1f} s of {budget:.0f} s{'   OVER BUDGET' if used > budget else ''}")
    return lines
