"""What a worker would be on a cluster, printed for people and for kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import lancegpu_sql as lg
from lancegpu_sql import function
from lancegpu_sql.cli import main

CLASSES = """\
gpu_classes:
  - name: l4
    max_gpu_count_per_worker: 2
    image: registry.example.com/worker:1
    node_selector: {pool: l4}
  - name: bare
  - name: queued
    image: registry.example.com/worker:1
    queue: team
  - name: claimed
    image: registry.example.com/worker:1
    device_claim: {device_class: gpu.example.com}
"""


@function(gpu=True, gpu_class="l4", gpus=2, cpus=3, env={"MODEL": "small"})
def embed(text: str) -> int:
    return len(text)


@function
def plain(text: str) -> int:
    return len(text)


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with GPU classes and two Functions."""
    (tmp_path / "classes.yaml").write_text(CLASSES)
    with lg.connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", runtime_folder=tmp_path / "run") as db:
        db.create_function(embed)
        db.create_function(plain)
    monkeypatch.setenv("LANCEGPU_DB", str(tmp_path / "db"))
    monkeypatch.setenv("LANCEGPU_RUNTIME_FOLDER", str(tmp_path / "run"))
    return tmp_path


def rendered(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["classes", "render", *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["classes", "render", *arguments]) == 1
    return capsys.readouterr().err


def test_a_class_is_printed_as_the_pod_of_a_worker(classes: Path, capsys: pytest.CaptureFixture[str]):
    (pod,) = rendered(capsys, "l4", "--namespace", "ml")
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("Pod", "ml")
    assert pod["spec"]["nodeSelector"] == {"pool": "l4"}


def test_a_function_says_what_its_worker_needs(classes: Path, capsys: pytest.CaptureFixture[str]):
    (pod,) = rendered(capsys, "l4", "--function", "embed")
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "3", "nvidia.com/gpu": "2"}
    assert {"name": "MODEL", "value": "small"} in container["env"]


def test_a_claims_template_is_printed_before_its_pod(classes: Path, capsys: pytest.CaptureFixture[str]):
    template, pod = rendered(capsys, "claimed", "--namespace", "ml")
    assert template["metadata"]["namespace"] == pod["metadata"]["namespace"] == "ml"
    assert pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_the_queue_of_a_class_is_a_label_of_its_pods(classes: Path, capsys: pytest.CaptureFixture[str]):
    (pod,) = rendered(capsys, "queued")
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def test_an_image_is_given_where_the_class_names_none(classes: Path, capsys: pytest.CaptureFixture[str]):
    assert "has no image" in refused(capsys, "bare")
    (pod,) = rendered(capsys, "bare", "--image", "team/worker:2")
    assert pod["spec"]["containers"][0]["image"] == "team/worker:2"


def test_a_pod_is_printed_as_the_settings_would_have_it(
    classes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"NAMESPACE": "ml", "IMAGE": "team/worker:2", "SERVICE_ACCOUNT": "gpu-worker"}.items():
        monkeypatch.setenv(f"LANCEGPU_KUBERNETES_{name}", value)
    (pod,) = rendered(capsys, "bare")
    assert (pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]) == ("ml", "gpu-worker")
    assert pod["spec"]["containers"][0]["image"] == "team/worker:2"


def test_what_cannot_be_is_said(classes: Path, capsys: pytest.CaptureFixture[str]):
    assert "it has: bare, claimed, l4, queued" in refused(capsys, "h100")
    assert "uses no GPU" in refused(capsys, "l4", "--function", "plain")
