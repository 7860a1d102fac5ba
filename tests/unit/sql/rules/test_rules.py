"""Where each rule cuts: a query, and its plan. Places are said in tests/unit/sql/rules/RULE/CASE.sql and CASE.plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from planned import COMPUTED, Bench

_HERE = Path(__file__).parent
_CASES = sorted(path.relative_to(_HERE) for path in _HERE.glob("*/*.sql"))


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.connection.close()


def written(bench: Bench, text: str) -> str:
    plan = bench.plan(text, COMPUTED)
    return "\n".join([plan.as_text(), "", *plan.notes]).rstrip() + "\n"


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_a_query_has_this_plan(bench: Bench, case: Path):
    text = (_HERE / case).read_text(encoding="utf-8").strip()
    assert written(bench, text) == (_HERE / case).with_suffix(".plan").read_text(encoding="utf-8")


def test_every_rule_has_cases():
    rules = {path.stem for path in Path("lancegpu_sql/sql/rules").glob("[a-z]*.py")}
    assert rules <= {case.parts[0] for case in _CASES}
