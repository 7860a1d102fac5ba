"""How an object store is reached: values that stand for a variable or a file, and none that is shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from lancegpu_sql.database.storage_options import resolved
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.settings import Settings


def test_a_value_comes_from_a_variable_or_a_file_or_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "k")
    (tmp_path / "secret").write_text("s\n")
    found = resolved({"key": "env:SHOP_KEY", "secret": f"file:{tmp_path}/secret", "endpoint": "http://a:9"})
    assert {name: found[name] for name in ("key", "secret", "endpoint")} == {
        "key": "k",
        "secret": "s",
        "endpoint": "http://a:9",
    }


@pytest.mark.parametrize("text", ["env:NO_SUCH_VARIABLE", "file:/no/such/file"])
def test_what_it_is_to_come_from_is_named_where_it_is_not_there(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"key is to come from the .* {text.partition(':')[2]}"):
        resolved({"key": text})


def test_what_is_given_wins_over_what_is_usual_here() -> None:
    assert resolved({})["client_retry_timeout"] == "30"
    assert resolved({"client_retry_timeout": "5"})["client_retry_timeout"] == "5"


def test_a_variable_holds_names_and_values() -> None:
    settings = Settings.load({"LANCEGPU_STORAGE_OPTIONS": "aws_region=eu-west-1, secret=a=b"})
    assert settings.storage_options == {"aws_region": "eu-west-1", "secret": "a=b"}


def test_no_value_is_shown() -> None:
    settings = Settings(storage_options={"aws_secret_access_key": "hush"})
    assert "hush" not in repr(settings)
    assert "aws_secret_access_key" in repr(settings)


@pytest.mark.parametrize("given", ["hush", {"aws_secret_access_key": ["hush"]}, ["hush"]])
def test_a_mistake_shows_none_either(given: object) -> None:
    with pytest.raises(InvalidInput, match="storage_options does not suit: it must be") as caught:
        Settings.load({}, storage_options=given)
    assert "hush" not in "".join(traceback.format_exception(caught.value))
