"""docs/waiting.md tells of every reason and every right that a diagnosis may name."""

from __future__ import annotations

import re

from suites import TESTS

from lancegpu_sql.placement.kubernetes.case import REASONS
from lancegpu_sql.placement.kubernetes.cluster import RIGHTS

PAGE = (TESTS.parent / "docs" / "waiting.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"## {title}")[2].partition("\n## ")[0]


def test_every_reason_stands_in_the_tables_once() -> None:
    of_the_queue = ["max_workers", "older_request", "api_server"]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section("Reasons"), re.MULTILINE)) == sorted([*REASONS, *of_the_queue])


def test_every_right_is_told() -> None:
    assert {right for right in RIGHTS if f"`{right}`" in section("Rights")} == set(RIGHTS)
