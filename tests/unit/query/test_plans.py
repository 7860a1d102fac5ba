"""What is kept of queries: a bounded number of texts, of each what was made last."""

from __future__ import annotations

from lancegpu_sql.query.plans import KeptPlan, Plans
from lancegpu_sql.sql.stages import QueryPlan


def made(text: str, *names: str) -> KeptPlan:
    return KeptPlan(QueryPlan((), text, ()), (("n", "BIGINT"),), names, ())


def test_what_was_made_last_of_a_text_is_kept():
    plans = Plans()
    plans.keep("FROM t", made("FROM t"))
    plans.keep("FROM t", made("FROM t", "t"))
    assert plans.of("FROM t") == made("FROM t", "t")


def test_texts_that_nobody_asks_for_make_room():
    plans = Plans()
    plans.keep("asked", made("asked"))
    plans.keep("not asked", made("not asked"))
    for number in range(300):
        plans.keep(f"text {number}", made(""))
        plans.of("asked")
    assert plans.of("asked") == made("asked")
    assert plans.of("not asked") is None
    assert plans.of("text 299") is not None
