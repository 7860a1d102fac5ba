"""Functions with packages, Pythons and secrets of their own, in pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from wheels import make_wheel

import lancegpu_sql as lg
from lancegpu_sql.errors import EnvironmentFailed
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

# How this machine reaches its index, which a pod does not inherit; and uv's cache, so that pyarrow need not come again.
REACH = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


@lg.function(gpu=True, pip=("lancegpu_greeting==1.*",))
def greeted(name: str) -> str:
    from lancegpu_greeting import WORD

    return f"{WORD} {name}"


@lg.function(gpu=True, secrets={"HF_TOKEN": "kubernetes:models/hf", "OWN_TOKEN": "env:OWN_TOKEN"})
def tokens(name: str) -> str:
    import os

    print(os.environ["HF_TOKEN"], os.environ["OWN_TOKEN"])
    return f"{len(os.environ['HF_TOKEN'])} {len(os.environ['OWN_TOKEN'])}"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "lancegpu_greeting", "1.0", {"lancegpu_greeting.py": "WORD = 'hello'\n"})
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def gpus() -> int:
    """How many the node has."""
    return 1


@pytest.fixture
def db(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, tmp_path: Path, wheels: Path, gpus: int
) -> Iterator[lg.Database]:
    """With a GPU class that keeps environments, and has them made without a GPU where its node has none."""
    process_node("environments-1", gpus=gpus, labels={"pool": namespace})
    cache = os.environ.get("UV_CACHE_DIR") or str(Path("~/.cache/uv").expanduser())
    env = {name: os.environ[name] for name in REACH if name in os.environ}
    spec = {
        # As a URI: paths below /tmp are the pod's own.
        "name": "default",
        "node_selector": {"pool": namespace},
        "env": {**env, "UV_FIND_LINKS": wheels.as_uri(), "UV_CACHE_DIR": cache},
        "volumes": [{"name": "kept", "mount_path": "/kept", "source": {"emptyDir": {}}}],
        "environment_volume": "kept",
        "environment_on_cpu": gpus == 0,
    }
    classes = tmp_path / "classes.yaml"
    classes.write_text(yaml.safe_dump({"gpu_classes": [spec]}))
    options = {"image": "worker:test", "cpu_node_selector": {"pool": namespace}}
    placement = KubernetesPlacement(namespace, kubeconfig=str(cluster.kubeconfig), **options)
    allowed = {"secret_sources": "kubernetes:models/*, env:OWN_*"}
    with lg.connect(tmp_path / "db", gpu_classes=classes, placement=placement, progress="quiet", **allowed) as opened:
        opened.create_table("people", pa.table({"name": ["Ada"]}))
        yield opened
    placement.close()


def test_a_pod_makes_the_environment_of_its_function_and_the_job_says_so(db: lg.Database):
    table = db.open_table("people")
    table.add_columns({"greeting": greeted(name=lg.col("name"))})
    job = table.refresh_column_async("greeting")
    job.wait()
    assert table.to_arrow()["greeting"].to_pylist() == ["hello Ada"]
    told = [event.message for event in job.events()]
    assert told.index("Preparing.") < told.index("Computing.")


def test_an_environment_that_cannot_be_made_fails_the_job_in_the_installers_words(db: lg.Database, wheels: Path):
    table = db.open_table("people")
    table.add_columns({"greeting": greeted(name=lg.col("name"))})
    for wheel in wheels.iterdir():
        wheel.unlink()
    make_wheel(wheels, "lancegpu_greeting", "1.1", {"lancegpu_greeting.py": "WORD = 'hi'\n"})
    job = table.refresh_column_async("greeting")
    with pytest.raises(EnvironmentFailed, match=r"greeted version 1 cannot run(?s:.)*lancegpu-greeting==1\.0"):
        job.wait()
    assert [error.owner for error in job.errors()] == ["environment"]


@pytest.mark.parametrize("gpus", [0])
def test_an_environment_is_made_before_there_is_a_gpu_where_the_class_allows_that(db: lg.Database, wheels: Path):
    table = db.open_table("people")
    table.add_columns({"greeting": greeted(name=lg.col("name"))})
    job = table.refresh_column_async("greeting")
    record = job.record
    while (
        record.waiting_on is None or record.waiting_on.gpu_class != "default" or "GPU" not in record.waiting_on.message
    ):
        record = job.next_change(record)
    told = [event.message for event in job.events()]
    assert "Preparing." in told
    job.cancel()


def test_secrets_of_the_cluster_and_of_the_owner_are_in_the_worker_and_masked(
    db: lg.Database, cluster: RunningCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
):
    kept, own = "-".join(["kept", "by", "the", "cluster"]), "-".join(["known", "to", "the", "owner"])
    monkeypatch.setenv("OWN_TOKEN", own)
    secret = {"kind": "Secret", "metadata": {"name": "models"}, "stringData": {"hf": kept}}
    cluster.client().create(secret, namespace)
    table = db.open_table("people")
    table.add_columns({"sizes": tokens(name=lg.col("name"))})
    job = table.refresh_column_async("sizes")
    job.wait()
    assert table.to_arrow()["sizes"].to_pylist() == [f"{len(kept)} {len(own)}"]
    assert "*** ***" in job.log()
    pods_and_secrets = str([cluster.client().list(kind, namespace) for kind in ("Pod", "Secret", "Event")])
    assert own not in pods_and_secrets
