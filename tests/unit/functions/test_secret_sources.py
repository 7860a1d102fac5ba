from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest

from lancegpu_sql import function
from lancegpu_sql.errors import EnvironmentFailed, InvalidFunction, InvalidInput
from lancegpu_sql.functions.definition import digest_of_function
from lancegpu_sql.functions.secret_sources import (
    Masking,
    check_allowed,
    kubernetes_sources,
    own_variables,
    read_secrets,
    refuse_kubernetes_sources,
)

VALUE = 'hf_0123456789"\\abc'


def double(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["HF_TOKEN"], "dict of variable names"),
        ({"HF-TOKEN": "env:A"}, "letters, digits"),
        ({"HF_TOKEN": VALUE}, "never the value itself"),
        ({"HF_TOKEN": "env:"}, "never the value itself"),
        ({"HF_TOKEN": "file:here"}, "never the value itself"),
        ({"HF_TOKEN": "file:/run/../etc/shadow"}, "never the value itself"),
        ({"HF_TOKEN": "kubernetes:no-key"}, "never the value itself"),
        ({"LANCEGPU_WORKER_TOKEN": "env:A"}, "set by the placement"),
    ],
)
def test_what_names_no_place_is_refused_without_repeating_it(given: Any, says: str) -> None:
    with pytest.raises(InvalidFunction, match=says) as caught:
        function(secrets=given)(double)
    assert VALUE not in str(caught.value)


def test_a_variable_is_a_secret_or_none() -> None:
    with pytest.raises(InvalidFunction, match="in env and in secrets"):
        function(env={"A": "word"}, secrets={"A": "env:A"})(double)


def test_where_a_secret_comes_from_is_no_part_of_a_version() -> None:
    plain, secret = function(double), function(secrets={"HF_TOKEN": "env:HF_TOKEN"})(double)
    assert digest_of_function(plain) == digest_of_function(secret)


def test_secrets_are_read_from_variables_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_TOKEN", VALUE)
    (tmp_path / "key").write_text("first\nsecond\n")
    sources = {"A": "env:OWN_TOKEN", "B": f"file:{tmp_path / 'key'}", "C": "kubernetes:models/hf"}
    assert read_secrets(sources) == {"A": VALUE, "B": "first\nsecond", "C": None}


@pytest.mark.parametrize(
    ("source", "says"),
    [("env:NO_SUCH_VARIABLE", "not set"), ("file:/no/such/file", "No such file")],
)
def test_a_secret_that_is_not_there_says_where_it_was_looked_for(source: str, says: str) -> None:
    with pytest.raises(EnvironmentFailed, match=f"HF_TOKEN cannot be had from {source}.*{says}"):
        read_secrets({"HF_TOKEN": source})


def test_a_secret_too_short_to_be_masked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_TOKEN", "abc")
    with pytest.raises(EnvironmentFailed, match="fewer than 4 characters"):
        read_secrets({"HF_TOKEN": "env:OWN_TOKEN"})


def test_a_worker_inherits_neither_the_variable_nor_where_it_comes_from() -> None:
    assert own_variables({"A": "env:OWN", "B": "file:/key"}) == {"A", "B", "OWN"}


def test_a_cluster_is_told_the_secret_and_the_key() -> None:
    assert kubernetes_sources({"A": "kubernetes:models/hf.token", "B": "env:B"}) == {"A": ("models", "hf.token")}


def test_this_machine_has_no_secrets_of_a_cluster() -> None:
    with pytest.raises(InvalidInput, match="has no Secrets of Kubernetes"):
        refuse_kubernetes_sources("embed", {"A": "kubernetes:models/hf"})


@pytest.mark.parametrize(("allowed", "on_cluster"), [(None, False), ("env:HF_*, kubernetes:models/*", True)])
def test_secrets_come_from_where_an_operator_allows(allowed: str | None, on_cluster: bool) -> None:
    check_allowed("embed", {"HF_TOKEN": "env:HF_TOKEN"}, allowed, on_cluster=on_cluster)


@pytest.mark.parametrize(("allowed", "on_cluster"), [(None, True), ("env:OTHER", False), ("", False)])
def test_secrets_from_elsewhere_are_refused_and_the_setting_named(allowed: str | None, on_cluster: bool) -> None:
    with pytest.raises(InvalidInput, match="secret_sources"):
        check_allowed("embed", {"HF_TOKEN": "env:HF_TOKEN"}, allowed, on_cluster=on_cluster)


@pytest.mark.parametrize("text", [VALUE, repr(VALUE), f"bad token {VALUE}!", repr({"token": VALUE})])
def test_a_secret_is_masked_as_it_is_and_as_python_shows_it(text: str) -> None:
    shown = Masking([VALUE])(text)
    assert "0123456789" not in shown
    assert "***" in shown


def test_each_line_of_a_secret_is_masked() -> None:
    masked = Masking(["-----BEGIN KEY-----\nAAAABBBB\nCCCC"])
    assert [masked(line) for line in ("got AAAABBBB", "CCCC")] == ["got ***", "***"]


@pytest.mark.parametrize(
    "shown",
    [
        json.dumps,
        quote,
        quote_plus,
        ascii,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: urlencode({"key": value}),
        lambda value: repr(value.encode()),
        lambda value: repr(f'a "{value}"'),
    ],
)
def test_a_secret_is_masked_as_json_urls_and_bytes_show_it(shown: Callable[[str], str]) -> None:
    value = "+d/e=f g'h\u00e9\u20acij"
    text = Masking([value])(shown(value))
    assert ("***" in text, "ij" in text) == (True, False)


def test_a_secret_of_odd_bytes_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    value = os.fsdecode(b"abcd\xffefgh")
    assert Masking([value])(f"{value} {value.encode(errors='surrogateescape')!r}") == "*** b'***'"


def test_a_pipe_is_no_source_of_a_secret_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EnvironmentFailed, match="no regular file"):
        read_secrets({"HF_TOKEN": f"file:{tmp_path / 'pipe'}"})


def test_a_file_with_a_null_byte_is_no_variable(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"abcd\0efgh")
    with pytest.raises(EnvironmentFailed, match="null byte"):
        read_secrets({"HF_TOKEN": f"file:{tmp_path / 'key'}"})
