"""Settings: one way to give each knob, and no way to misspell one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import Settings

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "settings.md"


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented_with_its_default_and_in_its_own_words(name: str) -> None:
    field = Settings.model_fields[name]
    row = next(line for line in DOCUMENTATION.read_text().splitlines() if line.startswith(f"| `{name}` |"))
    assert f"`{field.default}`" in row
    assert str(field.description) in row


def test_documentation_names_no_setting_that_is_gone() -> None:
    rows = [line for line in DOCUMENTATION.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == set(Settings.model_fields)


def test_without_variables_and_keywords_defaults_hold() -> None:
    assert Settings.load({}) == Settings()


def test_a_variable_wins_over_the_default() -> None:
    assert Settings.load({"LANCEGPU_WORKER_IDLE_SECONDS": "1.5"}).worker_idle_seconds == 1.5


def test_a_keyword_wins_over_a_variable() -> None:
    assert Settings.load({"LANCEGPU_MAX_WORKERS": "4"}, max_workers=2).max_workers == 2


@pytest.mark.parametrize("text", ["", "none", "None"])
def test_a_variable_can_say_none(text: str) -> None:
    assert Settings.load({"LANCEGPU_INIT_TIMEOUT_SECONDS": text}).init_timeout_seconds is None


def test_variables_of_other_programs_are_not_read() -> None:
    assert Settings.load({"WORKER_IDLE_SECONDS": "1"}) == Settings()


def test_a_workers_secret_is_no_setting_and_no_mistake() -> None:
    assert Settings.load({"LANCEGPU_WORKER_TOKEN": "secret", "LANCEGPU_DB": "shop"}) == Settings()


def test_a_misspelt_variable_is_refused_with_the_name_meant() -> None:
    with pytest.raises(InvalidInput, match="Did you mean LANCEGPU_WORKER_IDLE_SECONDS"):
        Settings.load({"LANCEGPU_WORKER_IDLE_SECOND": "1"})


def test_a_misspelt_keyword_is_refused_with_the_name_meant() -> None:
    with pytest.raises(InvalidInput, match="Did you mean max_workers"):
        Settings.load({}, max_worker=1)


def test_a_value_that_does_not_suit_is_refused_with_the_variable_named() -> None:
    with pytest.raises(InvalidInput, match="LANCEGPU_MAX_WORKERS='many'") as caught:
        Settings.load({"LANCEGPU_MAX_WORKERS": "many"})
    assert caught.value.facts["setting"] == "max_workers"


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(value: float) -> None:
    with pytest.raises(InvalidInput):
        Settings.load({}, call_timeout_seconds=value)


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name.endswith(("seconds", "days"))])
def test_no_time_is_longer_than_can_be_waited(name: str) -> None:
    for value in (1e300, float("inf"), float("nan")):
        with pytest.raises(InvalidInput):
            Settings.load({}, **{name: value})


WRONG_VALUES = [
    ({"max_workers": "x"}, "max_workers='x' does not suit: it must be a whole number"),
    ({"max_workers": 0}, "it must be 1 or more"),
    ({"max_part_rows": 10**9}, "it must be 1000000 or less"),
    ({"part_target_seconds": float("inf")}, "it must be a number, and not an endless one"),
    ({"init_timeout_seconds": -1}, "it must be more than 0"),
    ({"progress": "loud"}, "it must be 'auto', 'bar', 'lines' or 'quiet'"),
    ({"catalog": 4}, "it must be a text"),
    ({"runtime_folder": 3}, "it must be a path"),
]


@pytest.mark.parametrize(("given", "told"), WRONG_VALUES)
def test_what_a_value_should_be_is_said_in_our_words(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)) as caught:
        Settings.load({}, **given)
    assert "nput should" not in caught.value.message
