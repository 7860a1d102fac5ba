from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pods import NAMES, case, request_for
from pydantic import ValidationError

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.charge import shape_of
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.manifest import claim_template, disruption_annotations, worker_pod, worker_secret
from lancegpu_sql.placement.pod_security import weaknesses

CONFIG = KubernetesConfig("ml", image="registry.example.com/lancegpu:1")


def pod_of(gpu_class: GpuClass | None = None, config: KubernetesConfig = CONFIG, **request: Any) -> dict[str, Any]:
    return worker_pod(request_for(gpu_class, **request), config, name="w", secret_name="s", owner=None, database="shop")


def env_of(pod: dict[str, Any]) -> dict[str, Any]:
    entries = pod["spec"]["containers"][0]["env"]
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def resources_of(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_for_becomes_these_objects(name: str) -> None:
    one = case(name)
    assert one.objects() == list(yaml.safe_load_all(one.expected.read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_no_pod_may_do_more_than_a_worker_should(name: str) -> None:
    assert weaknesses(case(name).pod()) == ()


@pytest.mark.parametrize("name", NAMES)
def test_devices_are_asked_for_by_requests_equal_to_limits(name: str) -> None:
    resources = resources_of(case(name).pod())
    extended = {key: value for key, value in resources["requests"].items() if "/" in key}
    assert extended == {key: value for key, value in resources.get("limits", {}).items() if "/" in key}


def test_the_secret_holds_what_the_pod_reads() -> None:
    secret = worker_secret(name="s", token="t", certificate_pem="c", key_pem="k", owner=None, labels={"a": "b"})
    assert secret["stringData"] == {"token": "t", "certificate": "c", "key": "k"}
    read = [one["secretKeyRef"] for one in env_of(pod_of()).values() if "secretKeyRef" in one]
    assert {one["key"] for one in read} == secret["stringData"].keys()


def test_a_class_that_asks_by_a_resource_has_no_claim_template() -> None:
    assert claim_template(GpuClass(name="l4"), 1, owner=None, database="shop") is None


def test_another_claim_has_another_template() -> None:
    spec = {"name": "l4", "device_claim": {"device_class": "gpu.example.com"}}
    templates = [claim_template(GpuClass.from_spec(spec), gpus, owner=None, database="shop") for gpus in (1, 2)]
    assert len({one["metadata"]["name"] for one in templates if one}) == 2


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "LANCEGPU_WORKER_TOKEN"])
def test_a_function_sets_no_variable_of_the_placement(name: str) -> None:
    assert env_of(pod_of(GpuClass(name="l4"), env={name: "all"})).get(name) != "all"


def test_a_cpu_worker_sees_no_gpu_whatever_its_image_says() -> None:
    env = env_of(pod_of(env={"NVIDIA_VISIBLE_DEVICES": "all"}))
    assert (env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"]) == ("void", "")


def test_where_nvidias_plugin_chooses_devices_nothing_overrules_it() -> None:
    assert "NVIDIA_VISIBLE_DEVICES" not in env_of(pod_of(GpuClass(name="l4")))


def test_the_operators_variables_win_over_a_functions() -> None:
    env = env_of(pod_of(GpuClass(name="l4", env={"HF_HOME": "/models"}), env={"HF_HOME": "/x", "A": "1"}))
    assert (env["HF_HOME"], env["A"]) == ("/models", "1")


def expanded(value: str, variables: dict[str, str]) -> str:
    """Read a value as Kubernetes does: $(NAME) is replaced, $$ is one $."""
    out, rest = "", value
    while "$" in rest:
        before, rest = rest.split("$", 1)
        out += before
        if rest.startswith("$"):
            out, rest = out + "$", rest[1:]
        elif rest.startswith("(") and ")" in rest:
            name, rest = rest[1:].split(")", 1)
            out += variables.get(name, f"$({name})")
        else:
            out += "$"
    return out + rest


@given(st.text(alphabet="$()AB x", max_size=20))
def test_a_functions_value_arrives_as_it_is(value: str) -> None:
    assert expanded(env_of(pod_of(env={"V": value}))["V"], {"A": "secret"}) == value


def test_a_pod_asks_for_as_many_cpus_as_the_class_or_the_function_says() -> None:
    wide = GpuClass(name="l4", cpu=2.5)
    asked = [resources_of(pod_of(wide, cpus=cpus))["requests"]["cpu"] for cpus in (1, 4)]
    assert asked == ["2500m", "4"]


def test_a_rung_is_the_size_of_a_cpu_worker() -> None:
    pod = worker_pod(
        request_for(), CONFIG, name="w", secret_name="s", owner=None, database="d", rung=CONFIG.cpu_rungs[-1]
    )
    assert resources_of(pod)["requests"] == {"cpu": "4", "memory": "32Gi"}


def test_shared_memory_is_no_more_than_the_memory_it_is_part_of() -> None:
    pod = pod_of(GpuClass(name="l4", memory_bytes=2**20))
    assert pod["spec"]["volumes"][1]["emptyDir"]["sizeLimit"] == "1Mi"


def test_a_worker_without_an_image_is_refused() -> None:
    with pytest.raises(InvalidPlacement, match="set image on the class, or give the placement one"):
        pod_of(GpuClass(name="l4"), KubernetesConfig("ml"))


def test_an_image_that_the_class_does_not_allow_is_refused() -> None:
    with pytest.raises(InvalidPlacement, match="may not run the image") as caught:
        pod_of(GpuClass(name="l4", allowed_images=("ghcr.io/team/",)))
    assert caught.value.facts["image"] == CONFIG.image


def test_the_image_of_the_class_itself_is_always_allowed() -> None:
    pod = pod_of(GpuClass(name="l4", image="ghcr.io/team/worker:2", allowed_images=()))
    assert pod["spec"]["containers"][0]["image"] == "ghcr.io/team/worker:2"


@pytest.mark.parametrize("sharing", ["mig", "time_sliced"])
def test_shared_devices_come_one_at_a_time(sharing: Any) -> None:
    with pytest.raises(InvalidPlacement, match="gets one"):
        pod_of(GpuClass(name="slice", sharing=sharing), gpus=2)
    assert pod_of(GpuClass(name="slice", sharing=sharing), gpus=1)


def test_devices_of_ones_own_may_come_in_numbers() -> None:
    limits = pod_of(GpuClass(name="a100", sharing="exclusive"), gpus=2)["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "2"


def test_an_idle_worker_may_be_moved_and_a_busy_one_should_not_be() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    assert [disruption_annotations(busy=busy)[key] for busy in (True, False)] == ["false", "true"]


def test_a_spot_node_gives_less_grace_and_never_more() -> None:
    config = KubernetesConfig("ml", image="a/b", termination_grace_seconds=7)
    graces = [
        pod_of(GpuClass(name="l4", spot=True), one)["spec"]["terminationGracePeriodSeconds"] for one in (CONFIG, config)
    ]
    assert graces == [15, 7]


_security = (
    st.fixed_dictionaries(
        {},
        optional={
            "runAsUser": st.sampled_from([0, 1000, None]),
            "runAsNonRoot": st.sampled_from([True, False, None]),
            "privileged": st.booleans(),
            "allowPrivilegeEscalation": st.sampled_from([True, False, None]),
            "readOnlyRootFilesystem": st.sampled_from([True, False, None]),
            "capabilities": st.sampled_from([None, {"drop": ["ALL"]}, {"add": ["SYS_ADMIN"]}, {"drop": None}]),
            "seccompProfile": st.sampled_from([None, {"type": "Unconfined"}, {"type": "RuntimeDefault"}]),
        },
    )
    | st.none()
)
_container = st.fixed_dictionaries(
    {"name": st.sampled_from(["worker", "beside"])},
    optional={
        "securityContext": _security,
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "A"])},
                optional={"value": st.sampled_from(["all", "void", "", None]), "valueFrom": st.just({})},
            )
        )
        | st.none(),
    },
)
_volume = st.fixed_dictionaries(
    {"name": st.sampled_from(["scratch", "shm", "more"])},
    optional={"hostPath": st.just({"path": "/"}), "emptyDir": st.sampled_from([None, {}])},
)
_spec = st.fixed_dictionaries(
    {},
    optional={
        "securityContext": _security,
        "containers": st.lists(_container) | st.none(),
        "initContainers": st.lists(_container) | st.none(),
        "volumes": st.lists(_volume) | st.none(),
        "hostNetwork": st.booleans(),
        "automountServiceAccountToken": st.sampled_from([True, False, None]),
    },
)


@given(_spec)
def test_no_override_that_is_accepted_weakens_a_pod(spec: dict[str, Any]) -> None:
    try:
        gpu_class = GpuClass(name="l4", pod_overrides={"spec": spec})
    except ValidationError:
        return
    assert weaknesses(pod_of(gpu_class)) == ()


def test_pods_share_nothing_that_a_caller_could_change() -> None:
    pod_of()["spec"]["securityContext"]["runAsNonRoot"] = False
    pod_of()["spec"]["containers"][0]["securityContext"]["capabilities"]["drop"].clear()
    assert weaknesses(pod_of()) == ()


def queue_of(pod: dict[str, Any]) -> str | None:
    queue: str | None = pod["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
    return queue


def test_the_queue_of_a_refresh_comes_before_that_of_the_class() -> None:
    queued = GpuClass(name="l4", queue="all")
    assert queue_of(pod_of(queued)) == "all"
    assert queue_of(pod_of(queued, queue="team-a")) == "team-a"
    assert queue_of(pod_of(queue="team-a")) == "team-a"
    assert queue_of(pod_of()) is None


def test_pods_of_different_queues_cannot_stand_for_each_other() -> None:
    one = GpuClass(name="l4")
    assert shape_of(pod_of(one)) == shape_of(pod_of(one, request_id="another"))
    assert shape_of(pod_of(one)) != shape_of(pod_of(one, queue="team-a"))
