from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lancegpu_sql.errors import InvalidGpuClass
from lancegpu_sql.functions.sizes import parse_bytes
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices
from lancegpu_sql.placement.gpu_class_file import load_gpu_classes, parse_gpu_classes

FULL = """\
gpu_classes:
  - name: l4
    resource_name: nvidia.com/gpu
    node_selector: {cloud.google.com/gke-accelerator: nvidia-l4}
    tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      - {key: spot, value: "true", effect: NoExecute, tolerationSeconds: 60}
    gpu_model: NVIDIA L4
    gpu_memory_bytes: 24GiB
    max_gpu_count_per_worker: 2
    max_workers: 8
    local: {devices: auto}
  - name: mine
    gpu_memory_bytes: 1000
    local: {devices: [0, 1]}
  - name: pretended
    local:
      simulated: 2
"""


def refusal(text: str) -> InvalidGpuClass:
    with pytest.raises(InvalidGpuClass) as caught:
        parse_gpu_classes(text, "classes.yaml")
    return caught.value


def test_a_file_is_read_in_its_order() -> None:
    assert [one.name for one in parse_gpu_classes(FULL, "f")] == ["l4", "mine", "pretended"]


def test_every_key_is_read() -> None:
    l4 = parse_gpu_classes(FULL, "f")[0]
    assert l4.node_selector == {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert [toleration.toleration_seconds for toleration in l4.tolerations] == [None, 60]
    assert (l4.gpu_model, l4.gpu_memory_bytes) == ("NVIDIA L4", 24 * 1024**3)
    assert (l4.max_gpu_count_per_worker, l4.max_workers) == (2, 8)
    assert l4.local == LocalDevices(devices="auto")


def test_only_simulated_classes_say_that_they_are() -> None:
    assert [one.simulated for one in parse_gpu_classes(FULL, "f")] == [False, False, True]


def test_a_class_comes_back_from_its_spec() -> None:
    classes = parse_gpu_classes(FULL, "f")
    assert tuple(GpuClass.from_spec(json.loads(json.dumps(one.spec()))) for one in classes) == classes


def test_a_spec_reads_as_the_same() -> None:
    for one in parse_gpu_classes(FULL, "f"):
        assert GpuClass.from_spec(one.spec()) == one


def test_a_spec_holds_what_was_declared_and_no_defaults() -> None:
    assert GpuClass(name="l4", local=LocalDevices(simulated=2)).spec() == {"name": "l4", "local": {"simulated": 2}}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "gpu_classes:\n- name: l4\n  gpu_modell: x\n",
            3,
            "class 'l4': unknown key 'gpu_modell', did you mean 'gpu_model'?",
        ),
        ("gpu_classes:\n- name: l4\n  local:\n    device: auto\n", 4, "valid keys: devices, simulated"),
        ("gpu_classes:\n- name: l4\n  tolerations:\n  - keyy: a\n", 4, "valid keys: key, operator, value, effect"),
        ("gpu_classes:\n- name: a\n- gpu_model: x\n", 3, "the key 'name' is missing; valid keys: name, resource_name"),
        ("gpu_classes:\n- name: l4\n\n  max_workers: many\n", 4, "max_workers: must be a whole number (got 'many')"),
        ("gpu_classes:\n- name: l4\n  max_workers: true\n", 3, "(got True)"),
        ("gpu_classes:\n- name: l4\n  max_workers: 0\n", 3, "must be more than 0 (got 0)"),
        ("gpu_classes:\n- name: l4\n  gpu_memory_bytes: 24 gigs\n", 3, "a text such as '24GiB'"),
        ("gpu_classes:\n- name: l4\n  local: {devices: auto, simulated: 1}\n", 3, "either devices"),
        ("gpu_classes:\n- name: l4\n  local: {}\n", 3, "either devices"),
        ("gpu_classes:\n- name: l4\n  local: {devices: [0, 0]}\n", 3, "listed twice: [0, 0]"),
        ("gpu_classes:\n- name: l4\n  local: {devices: [-1]}\n", 3, "local.devices: write auto for all"),
        ("gpu_classes:\n- name: l4\n- name: L4\n", 3, "class 'L4' stands twice; the first is in line 2"),
        ("gpu_classes:\n- name: l4\n  backup_classes: [l4]\n", 3, "a class cannot stand in for itself"),
        ("gpu_classes:\n- name: a\n- name: l4\n  backup_classes: [a, a]\n", 4, "a class is listed twice"),
        ("gpu_classes:\n- name: l4\n  backup_classes:\n  - a100\n", 4, "there is no class 'a100'; there are l4"),
        ("gpu_classes:\n- name: l4\n  backup_classes: a100\n", 3, "backup_classes: must be a list"),
        ("gpu_classes:\n- name: l4\n  name: l5\n", 3, "key 'name' stands twice; the first is in line 2"),
        ("gpu_classes:\n- name: l4\n  local: {devices: all}\n", 3, "class 'l4': local.devices: write auto for all"),
        ("gpu_classes:\n- name: l4\n  gpu_model: 4\n", 3, "gpu_model: must be a text: write it in quotes (got 4)"),
        ("gpu_classes:\n- name: has blanks\n", 2, "name: a name has letters, digits"),
        ("gpu_classes:\n- l4\n", 2, "a class should be a mapping with the keys name"),
        ("gpu_classes:\n- name: [\n", 3, "it is no YAML"),
        ("- name: l4\n", 1, "a list of classes under the key 'gpu_classes'"),
        ("", 1, "a list of classes under the key 'gpu_classes'"),
        ("gpu_classes: []\nclasses: []\n", 2, "unknown key 'classes', did you mean 'gpu_classes'?"),
        ("gpu_classes: &a\n- *a\n", 1, "stand for more than"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, words: str) -> None:
    error = refusal(text)
    assert error.facts["line"] == line
    assert f"classes.yaml:{line}: " in error.message
    assert words in error.message


BOMB = "a: &a [l,l,l,l,l,l,l,l,l,l]\n" + "".join(
    f"{this}: &{this} [{','.join([f'*{last}'] * 10)}]\n" for last, this in zip("abcdefg", "bcdefgh", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{this}: &{this} {{<<: [{','.join([f'*{last}'] * 10)}]}}\n"
    for last, this in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "stand for more than"),
        (MERGE_BOMB, "stand for more than"),
        ("gpu_classes:\n- &a [*a]\n", "stand for more than"),
        ("gpu_classes: " + "[" * 5000, "nested too deeply"),
        (f"gpu_classes:\n- max_workers: {'9' * 5000}\n", "is no int that can be read"),
        (f"gpu_classes:\n- max_workers: 0x{'f' * 5000}\n", "is no int that can be read"),
        ("gpu_classes:\n- max_workers: 9223372036854775808\n", "is no int that can be read"),
        ("gpu_classes:\n- name: 1999-99-99\n", "'1999-99-99' is no timestamp that can be read"),
        ("gpu_classes:\n- name: !!float x\n", "'x' is no float that can be read"),
        ("gpu_classes:\n- name: !!int 0x\n", "is no int that can be read"),
        (f"gpu_classes:\n- name: a\n  gpu_memory_bytes: '{'9' * 400}GiB'\n", "9223372036854775807 or less"),
        ("gpu_classes:\n- name: a\n  local: {simulated: 100000000000}\n", "1024 or less"),
        ("gpu_classes:\n- ? {a: b}\n  : 1\n", "unhashable key"),
        ('gpu_classes:\n- name: "a\0"\n', "it is no YAML"),
        ("gpu_classes: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
    ],
)
def test_a_hostile_file_is_refused_like_any_other(text: str, words: str) -> None:
    assert words in refusal(text).message


@pytest.mark.parametrize("path", ["/dev/zero", "/tmp", "a\0b", "x" * 5000])
def test_what_is_no_file_of_classes_is_refused(path: str) -> None:
    with pytest.raises(InvalidGpuClass, match="could not read the GPU classes"):
        load_gpu_classes(path)


def test_a_class_that_was_changed_by_hand_is_told_with_what_to_do() -> None:
    with pytest.raises(InvalidGpuClass, match="apply FILE"):
        GpuClass.from_spec({"name": "l4", "local": {"simulated": 10**11}})


def test_all_mistakes_are_told_at_once() -> None:
    error = refusal("gpu_classes:\n- name: a\n  b: 1\n- name: c\n  d: 1\n")
    assert [line.partition(": ")[0] for line in error.message.splitlines()] == ["classes.yaml:3", "classes.yaml:5"]


def test_an_unknown_key_carries_the_valid_ones() -> None:
    assert refusal("gpu_classes:\n- name: a\n  local: {x: 1}\n").facts["valid_keys"] == ("devices", "simulated")


def test_a_file_without_classes_is_fine() -> None:
    assert parse_gpu_classes("gpu_classes: []\n", "f") == ()


def test_a_merge_key_shares_what_classes_have_in_common() -> None:
    text = "gpu_classes:\n- &a {name: a, gpu_model: NVIDIA L4}\n- {<<: *a, name: b}\n"
    assert [(one.name, one.gpu_model) for one in parse_gpu_classes(text, "f")] == [
        ("a", "NVIDIA L4"),
        ("b", "NVIDIA L4"),
    ]


def test_a_missing_file_is_told() -> None:
    with pytest.raises(InvalidGpuClass, match="could not read the GPU classes of /no/such/file: No such file"):
        load_gpu_classes(Path("/no/such/file"))


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("24GiB", 24 * 1024**3),
        ("80 GB", 80 * 1000**3),
        ("1.5KiB", 1536),
        ("512MiB", 512 * 1024**2),
        ("7B", 7),
        ("1KB", 1000),
    ],
)
def test_sizes_have_units(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("value", ["24", "GiB", "-1GiB", "24gib", 0, -1, 1.5, True])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        GpuClass(name="l4", gpu_memory_bytes=value)
