"""The rules of the test run itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from skips import EXPECTED_IN_CI, Skip, refusal
from suites import TESTS, report_lines, suite_of


def test_a_skip_without_a_listed_reason_is_refused_everywhere():
    assert "does not list" in refusal("no time today", in_ci=False)


@pytest.mark.parametrize("skip", list(Skip))
def test_a_listed_reason_is_accepted_at_a_desk_with_words_after_it(skip: Skip):
    assert refusal(f"{skip}: none here", in_ci=False) is None


@pytest.mark.parametrize("skip", list(Skip))
def test_ci_accepts_only_the_skips_it_expects(skip: Skip):
    assert (refusal(skip, in_ci=True) is None) == (skip in EXPECTED_IN_CI)


def test_a_test_file_belongs_to_the_folder_it_stands_in():
    assert suite_of(TESTS / "integration" / "deep" / "test_x.py") == "integration"


def test_seconds_are_reported_cheapest_suite_first_and_say_when_over():
    lines = report_lines({"integration": 1.0, "unit": 1000.0})
    assert [line.split()[0] for line in lines] == ["unit", "integration"]
    assert "OVER BUDGET" in lines[0]
    assert "OVER BUDGET" not in lines[1]


def test_every_folder_of_tests_has_a_budget():
    folders = [path.name for path in Path(TESTS).iterdir() if path.is_dir() and any(path.rglob("test_*.py"))]
    assert all("no budget" not in line for line in report_lines(dict.fromkeys(folders, 0.0)))
