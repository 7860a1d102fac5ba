from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql import col, function
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import (
    AlreadyExists,
    FunctionNotFound,
    GpuClassNotFound,
    InUse,
    InvalidBinding,
    InvalidFunction,
    InvalidName,
)
from lancegpu_sql.functions.gpu_needs import GpuClassLimit
from lancegpu_sql.functions.loading import load
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.functions.registry import (
    alter_function,
    drop_function,
    get_function,
    list_functions,
    register,
    registered_version,
)

CLASSES = {"l4": GpuClassLimit(2, 24 * 1024**3), "a100": GpuClassLimit(8, 80 * 10**9)}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


@function(name="score", gpu=True, gpu_class="l4")
class Score:
    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def __call__(self, text: str | None) -> float | None:
        return None if text is None else self.factor * len(text)


def longer(text: str) -> str:
    return text + text


def test_a_registered_version_says_all_that_was_declared(catalog: Catalog) -> None:
    version = register(catalog, CLASSES, Score)
    assert (version.name, version.version, version.calling, version.is_class) == ("score", 1, "row", True)
    assert [(each.name, each.type, each.nullable) for each in version.parameters] == [("text", "utf8", True)]
    assert (version.output_type, version.output_nullable) == ("float64", True)
    assert (version.placement.gpu, version.placement.gpu_class) == (True, "l4")
    assert [(each.name, each.required, each.default) for each in version.init_parameters] == [("factor", False, 1.0)]


def test_a_registered_function_loads_from_the_catalog(catalog: Catalog) -> None:
    version = register(catalog, CLASSES, Score)
    loaded = load(catalog.payload("score", version.version), {"factor": 2.0})
    assert loaded.call(pa.record_batch({"text": ["ab", None]})).to_pylist() == [4.0, None]


def test_a_plain_callable_is_registered_with_options(catalog: Catalog) -> None:
    version = register(catalog, CLASSES, longer, "twice", cpus=2, batch_size=10)
    assert (version.name, version.placement.cpus, version.placement.batch_size) == ("twice", 2, 10)


def test_the_same_content_again_is_the_same_version(catalog: Catalog) -> None:
    assert register(catalog, CLASSES, Score) == register(catalog, CLASSES, Score)
    assert len(catalog.function_versions("score")) == 1


def test_content_of_an_earlier_version_stays_that_one_and_it_is_said_which_is_called(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    for target in (longer, Score, longer):
        version = register(catalog, CLASSES, target, "twice")
    assert (version.version, catalog.function("twice").version) == (1, 2)
    assert "the latest is called, version 2" in caplog.text


def test_the_same_content_from_another_folder_loads_from_there(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(catalog, CLASSES, Score)
    monkeypatch.syspath_prepend(str(tmp_path))
    again = register(catalog, CLASSES, Score)
    assert again.version == 1
    assert str(tmp_path) in Payload.from_bytes(catalog.payload("score", 1)).search_path


def test_other_content_is_the_next_version(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    version = register(catalog, CLASSES, Score, env={"LANGUAGE": "de"})
    assert version.version == 2


def test_the_same_content_elsewhere_changes_the_placement_and_says_so(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    register(catalog, CLASSES, Score)
    with caplog.at_level(logging.WARNING):
        version = register(catalog, CLASSES, Score, gpu_class="a100", gpus=4)
    assert (version.version, version.placement.gpu_class, version.placement.gpus) == (1, "a100", 4)
    assert "gpu_class from 'l4' to 'a100', gpus from 1 to 4" in caplog.text
    event = catalog.events(subject="function score")[-1]
    assert (event.kind, event.detail) == ("placement_changed", {"gpu_class": ["l4", "a100"], "gpus": [1, 4]})


def test_a_placement_is_altered_by_name(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    assert alter_function(catalog, CLASSES, "score", gpu_class="a100").placement.gpu_class == "a100"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"env": {"A": "1"}}, InvalidFunction),
        ({"gpu": False}, InvalidFunction),
        ({"gpu_class": "h200"}, GpuClassNotFound),
        ({"gpus": 3}, InvalidFunction),
    ],
)
def test_what_is_no_placement_is_not_altered(
    catalog: Catalog, change: dict[str, object], error: type[Exception]
) -> None:
    before = register(catalog, CLASSES, Score)
    with pytest.raises(error):
        alter_function(catalog, CLASSES, "score", **change)
    assert catalog.function("score") == before


def test_an_unknown_gpu_class_lists_those_there_are(catalog: Catalog) -> None:
    with pytest.raises(GpuClassNotFound, match="There are a100, l4"):
        register(catalog, CLASSES, Score, gpu_class="h200")
    assert list_functions(catalog) == []


def test_a_gpu_function_without_a_class_needs_the_default_one(catalog: Catalog) -> None:
    with pytest.raises(GpuClassNotFound, match="names no gpu_class"):
        register(catalog, CLASSES, longer, gpu=True)
    assert register(catalog, {"default": GpuClassLimit(1)}, longer, gpu=True).placement.gpu_class is None


def test_more_gpus_than_a_worker_may_have_say_the_limit(catalog: Catalog) -> None:
    with pytest.raises(InvalidFunction, match="write gpus=2 or fewer"):
        register(catalog, CLASSES, Score, gpus=3)


def test_names_differ_by_more_than_case(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    with pytest.raises(AlreadyExists, match="write name='score'"):
        register(catalog, CLASSES, Score, "Score")


def test_a_taken_name_registers_nothing(catalog: Catalog) -> None:
    with pytest.raises(InvalidName):
        register(catalog, CLASSES, longer, "lower")
    assert list_functions(catalog) == []


def test_a_function_of_the_catalog_is_bound_by_name(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    binding = get_function(catalog, "SCORE")(text=col("body"), factor=3.0)
    assert repr(binding) == "score(text=col('body'), factor=3.0)"
    assert registered_version(catalog, CLASSES, binding.function).version == 1


def test_a_function_of_the_catalog_does_not_run_here(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    with pytest.raises(InvalidBinding, match="takes a column"):
        get_function(catalog, "score")(text="good")


def test_binding_a_function_registers_it_once(catalog: Catalog) -> None:
    binding = Score(text=col("body"))
    first = registered_version(catalog, CLASSES, binding.function)
    assert registered_version(catalog, CLASSES, binding.function) == first


def test_binding_a_registered_function_does_not_move_it(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    alter_function(catalog, CLASSES, "score", gpu_class="a100")
    version = registered_version(catalog, CLASSES, Score(text=col("body")).function)
    assert version.placement.gpu_class == "a100"


def test_a_function_of_another_catalog_is_not_taken_for_this_ones(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, CLASSES, Score)
    with Catalog.open(tmp_path / "other.sqlite") as other:
        register(other, CLASSES, Score, env={"A": "1"})
        with pytest.raises(FunctionNotFound, match="another database"):
            registered_version(catalog, CLASSES, get_function(other, "score"))


def test_a_function_that_columns_use_is_not_dropped(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    with pytest.raises(InUse, match=r"reviews\.score") as refused:
        drop_function(catalog, "score", users=lambda name, version: ["reviews.score"])
    assert refused.value.facts["users"] == ["reviews.score"]
    assert get_function(catalog, "score").version.version == 1


def test_a_function_that_nothing_uses_is_dropped(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    drop_function(catalog, "score", users=lambda name, version: [])
    with pytest.raises(FunctionNotFound):
        get_function(catalog, "score")


def test_a_class_with_too_little_memory_names_those_with_enough(catalog: Catalog) -> None:
    with pytest.raises(InvalidFunction, match=r"40 GiB(?s:.)*'l4' have 24 GiB: name another class \(a100\)"):
        register(catalog, CLASSES, Score, gpu_memory_bytes="40GiB")


def test_the_least_memory_is_no_part_of_a_version(catalog: Catalog) -> None:
    register(catalog, CLASSES, Score)
    again = register(catalog, CLASSES, Score, gpu_memory_bytes="16GiB")
    assert (again.version, again.placement.gpu_memory_bytes) == (1, 16 * 1024**3)


def test_a_class_that_does_not_say_its_memory_is_taken_at_its_word(catalog: Catalog) -> None:
    classes = {"l4": GpuClassLimit(1)}
    assert register(catalog, classes, Score, gpu_memory_bytes="80GB").placement.gpu_memory_bytes == 80 * 10**9
