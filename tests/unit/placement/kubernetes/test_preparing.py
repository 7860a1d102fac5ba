"""Pods of Functions with packages, an image or secrets of their own."""

from __future__ import annotations

from typing import Any

import pytest
from pods import request_for
from pydantic import ValidationError

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.functions.environment import Environment
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.charge import shape_of
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.manifest import worker_pod, worker_secret
from lancegpu_sql.placement.pod_security import weaknesses

CONFIG = KubernetesConfig("ml", image="registry.example.com/lancegpu:1", cpu_allowed_images=("registry.example.com/",))
PACKAGES = Environment("3.12", "magika==1.0 --hash=sha256:00\n")
CACHE = {"name": "cache", "mount_path": "/cache", "source": {"persistentVolumeClaim": {"claimName": "cache"}}}
INDEX = {"UV_DEFAULT_INDEX": "https://index.example"}
CACHED = GpuClass.from_spec({"name": "l4", "volumes": [CACHE], "environment_volume": "cache", "env": INDEX})
PLAIN = GpuClass(name="l4", env=INDEX)


def pod_of(gpu_class: GpuClass | None = None, secret_name: str = "s", **request: Any) -> dict[str, Any]:
    asked = request_for(gpu_class, **request)
    return worker_pod(asked, CONFIG, name="w", secret_name=secret_name, owner=None, database="shop")


def first_of(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["initContainers"]
    return dict(container)


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def mounts_of(container: dict[str, Any]) -> dict[str, bool]:
    return {one["mountPath"]: one.get("readOnly", False) for one in container["volumeMounts"]}


def test_a_pod_without_packages_of_its_own_has_no_other_container() -> None:
    assert "initContainers" not in pod_of(PLAIN)["spec"]


def test_a_container_before_the_worker_makes_its_environment_in_its_image_and_without_gpu() -> None:
    pod = pod_of(PLAIN, environment=PACKAGES)
    first, worker = first_of(pod), pod["spec"]["containers"][0]
    assert first["image"] == worker["image"]
    assert "nvidia.com/gpu" in worker["resources"]["limits"]
    assert "nvidia.com/gpu" not in first["resources"].get("limits", {}) | first["resources"]["requests"]
    assert env_of(first)["LANCEGPU_WORKER_PYTHON"] == "3.12"
    assert env_of(first)["LANCEGPU_WORKER_ENVIRONMENT"] == env_of(worker)["LANCEGPU_WORKER_ENVIRONMENT"]


def test_it_has_what_the_class_says_of_uv_and_no_secret_of_the_worker() -> None:
    env = env_of(first_of(pod_of(PLAIN, environment=PACKAGES, secrets={"HF_TOKEN": "kubernetes:models/hf"})))
    assert env["UV_DEFAULT_INDEX"] == "https://index.example"
    assert not env.keys() & {"LANCEGPU_WORKER_TOKEN", "LANCEGPU_WORKER_KEY", "HF_TOKEN"}


@pytest.mark.parametrize("gpu_class", [None, PLAIN, CACHED])
def test_it_may_do_no_more_than_a_worker(gpu_class: GpuClass | None) -> None:
    pod = pod_of(gpu_class, environment=PACKAGES)
    assert weaknesses(pod) == ()
    assert first_of(pod)["securityContext"] == pod["spec"]["containers"][0]["securityContext"]


def test_the_lock_comes_by_the_pods_own_secret() -> None:
    secret = worker_secret(
        name="s", token="t", certificate_pem="c", key_pem="k", owner=None, labels={}, lock=PACKAGES.lock
    )
    (volume,) = [one for one in pod_of(PLAIN, environment=PACKAGES)["spec"]["volumes"] if "secret" in one]
    (item,) = volume["secret"]["items"]
    assert secret["stringData"][item["key"]] == PACKAGES.lock
    assert volume["secret"]["secretName"] == "s"


def test_a_lock_that_fits_into_no_secret_is_refused() -> None:
    with pytest.raises(InvalidPlacement, match="have them in the worker's image"):
        pod_of(PLAIN, environment=Environment("3.12", "x" * 1_000_000))


def test_environments_are_kept_on_the_volume_of_the_class_which_workers_only_read() -> None:
    pod = pod_of(CACHED, environment=PACKAGES)
    assert env_of(first_of(pod))["LANCEGPU_WORKER_ENVIRONMENTS"].startswith("/cache/")
    assert mounts_of(first_of(pod))["/cache"] is False
    assert mounts_of(pod["spec"]["containers"][0])["/cache"] is True


def test_a_pod_without_gpu_makes_it_there_for_the_class() -> None:
    pod = pod_of(None, environment=PACKAGES, prepared_for=CACHED)
    assert env_of(first_of(pod))["LANCEGPU_WORKER_ENVIRONMENTS"].startswith("/cache/")
    assert env_of(first_of(pod))["UV_DEFAULT_INDEX"] == "https://index.example"
    assert "cache" in [one["name"] for one in pod["spec"]["volumes"]]
    assert "nvidia.com/gpu" not in str(pod["spec"]["containers"][0]["resources"])


def test_pods_of_other_packages_or_secrets_cannot_stand_for_each_other() -> None:
    other = Environment("3.12", "magika==1.1 --hash=sha256:00\n")
    hf, db = ({"TOKEN": f"kubernetes:{name}/key"} for name in ("hf", "db"))
    shapes = [shape_of(pod_of(PLAIN, environment=one)) for one in (PACKAGES, other)]
    shapes += [shape_of(pod_of(PLAIN, secrets=one)) for one in (hf, db)]
    assert len(set(shapes)) == 4
    assert shape_of(pod_of(PLAIN, secret_name="another", environment=PACKAGES)) == shapes[0]


def test_a_secret_of_the_cluster_is_a_reference_and_others_are_not_in_the_pod() -> None:
    worker = pod_of(PLAIN, secrets={"A": "kubernetes:models/hf", "B": "env:B"})["spec"]["containers"][0]
    assert env_of(worker)["A"] == {"secretKeyRef": {"name": "models", "key": "hf"}}
    assert "B" not in env_of(worker)


def test_a_function_names_its_image_within_what_is_allowed() -> None:
    limited = GpuClass(name="l4", image="good.io/own:1", allowed_images=("good.io/ml/",))
    assert pod_of(limited, image="good.io/ml/torch:2")["spec"]["containers"][0]["image"] == "good.io/ml/torch:2"
    assert pod_of(limited)["spec"]["containers"][0]["image"] == "good.io/own:1"
    for gpu_class in (limited, None):
        with pytest.raises(InvalidPlacement, match=r"may not run the image 'bad\.io/x:1'"):
            pod_of(gpu_class, image="bad.io/x:1")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"environment_volume": "cache"}, "none of the class's volumes"),
        ({"environment_on_cpu": True}, "needs environment_volume"),
    ],
)
def test_a_class_that_keeps_environments_says_where(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        GpuClass(name="l4", **spec)
