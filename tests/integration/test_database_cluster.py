"""A cluster that the settings name is where workers run."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancegpu_sql as lg
from lancegpu_sql import function
from lancegpu_sql.errors import InvalidInput, InvalidPlacement
from lancegpu_sql.placement.kubernetes import KubernetesPlacement


def test_settings_of_a_cluster_that_cannot_be_are_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(InvalidPlacement, match="cannot name a namespace"):
        lg.connect(tmp_path / "db", kubernetes_namespace="no such name")
    assert not (tmp_path / "db").exists()


def test_a_cluster_is_not_asked_before_the_first_worker_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with lg.connect(tmp_path / "db", kubernetes_namespace="ml", kubernetes_image="registry.example/worker:1") as db:
        assert db.table_names() == []


def test_no_secret_comes_to_a_cluster_that_nobody_allowed_however_it_was_named(tmp_path: Path):
    @function(secrets={"HF_TOKEN": "env:HF_TOKEN"})
    def embed(text: str) -> str:
        return text

    placement = KubernetesPlacement("ml", image="registry.example/worker:1")
    with (
        lg.connect(tmp_path / "db", placement=placement) as db,
        pytest.raises(InvalidInput, match="not allowed here; allowed: none"),
    ):
        db.create_function(embed)
    with lg.connect(tmp_path / "db", placement=placement, secret_sources="env:HF_*") as db:
        db.create_function(embed)


def test_a_secret_that_was_allowed_on_this_machine_comes_to_no_cluster(tmp_path: Path):
    @function(secrets={"HF_TOKEN": "env:HF_TOKEN"})
    def embed(text: str) -> str:
        return text

    with lg.connect(tmp_path / "db") as db:
        db.create_function(embed)
    placement = KubernetesPlacement("ml", image="registry.example/worker:1")
    with (
        lg.connect(tmp_path / "db", placement=placement) as db,
        pytest.raises(InvalidInput, match="not allowed here; allowed: none"),
    ):
        db.sql("SELECT embed('a')").fetchall()
