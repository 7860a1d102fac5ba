from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancegpu_sql.functions.environment import own_python_version
from lancegpu_sql.functions.imports_needed import imports_needed, missing_in_lock, outside, standard_library
from lancegpu_sql.functions.payload import ModuleSource, Payload

MODULE = """
from __future__ import annotations
import json, torch.nn as nn
from typing import TYPE_CHECKING
from . import beside
import lancegpu_sql
if TYPE_CHECKING:
    import only_for_types
try:
    import perhaps
except ImportError:
    perhaps = None

def helper():
    import never_called

class Embed:
    import in_the_class
    def __init__(self, fast=False):
        import loaded_once
        if fast:
            import cupy
    def __call__(self, text: str) -> str:
        with lock():
            from called import it
        return it(text)
    def close(self):
        import at_the_end
"""


def packed(source: str = MODULE, **changes: Any) -> Payload:
    payload = Payload(
        name="embed",
        python_version=own_python_version(),
        calling="row",
        is_class=True,
        by_keyword=(),
        input_schema=pa.schema([("text", pa.string())]),
        output_field=pa.field("value", pa.string()),
        search_path=(),
        module=ModuleSource("mine.functions", "Embed", source, "/mine/functions.py", is_package=False),
    )
    return dataclasses.replace(payload, **changes)


def test_what_is_imported_for_certain_is_named() -> None:
    assert imports_needed(packed()) == ("called", "in_the_class", "loaded_once", "torch")


def test_a_functions_own_package_is_no_other() -> None:
    assert imports_needed(packed("import mine.other\n\nclass Embed: ...\n")) == ()


def test_of_pickled_code_only_the_function_itself_counts() -> None:
    text = "import torch\n\ndef embed(text):\n    import magika\n"
    assert imports_needed(packed(module=None, sources={"<cell>": text, "<magic>": "%matplotlib"})) == ("magika",)


@pytest.mark.parametrize(("version", "has"), [("3.11", True), ("3.12", False), ("3.13", False)])
def test_what_left_the_standard_library_is_a_package(version: str, has: bool) -> None:
    assert ("asyncore" in standard_library("3.11") and "asyncore" in standard_library(version)) is has


def test_a_package_of_another_name_is_taken_at_its_word() -> None:
    assert missing_in_lock(["no_such_module"], (), {"whatever": "1"}) == {}


def test_a_module_that_another_package_has_here_names_that_package() -> None:
    assert missing_in_lock(["yaml", "numpy"], (), {"numpy": "2"}) == {"yaml": "pyyaml"}


def test_a_module_beside_the_function_is_not_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("")
    assert missing_in_lock(["yaml"], [str(tmp_path)], {}) == {}
    assert outside(["yaml", "torch"], [str(tmp_path)]) == ("torch",)
