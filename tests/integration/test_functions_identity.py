"""One definition, registered by processes that share nothing but the database: it is one version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

DEFINITION = '''
import re
from dataclasses import dataclass
from enum import Enum
from typing import TypedDict
from lancegpu_sql import function

class Mood(Enum):
    GOOD = "good"
    BAD = "bad"

class Found(TypedDict):
    label: str
    words: list[str]

@dataclass(frozen=True)
class Rules:
    good: frozenset = frozenset({"good", "great", "fine", "nice"})
    pattern: re.Pattern = re.compile("[a-z]+")

RULES = Rules()
STOP = {"the", "a", "an", "of"}

def words(text):
    return [word for word in RULES.pattern.findall(text) if word not in STOP and word not in {"and", "or", "not"}]

def make(limit):
    seen = {"x": {1, 2, 3}, "y": {"p", "q", "r"}}
    class Labels:
        """Label texts."""
        def __init__(self, least: int = 1) -> None:
            self.least = least
        def __call__(self, text: str) -> Found:
            found = words(text)[:limit]
            mood = Mood.GOOD if len(RULES.good.intersection(found)) >= self.least else Mood.BAD
            return {"label": mood.value, "words": sorted(set(found) - set(seen))}
    return Labels

labels = function(name="labels", env={"B": "1", "A": "2"})(make(10))
'''

REGISTER = """
import json, sys
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.functions.registry import register
catalog = Catalog.open(sys.argv[1])
version = register(catalog, {}, labels)
print(json.dumps([version.version, version.digest]))
catalog.close()
"""


def register(
    folder: Path, catalog: Path, seed: str, definition: str = DEFINITION, *, as_module: bool = False
) -> list[object]:
    """Define and register in a process of its own, with its own folder and its own order of sets."""
    folder.mkdir()
    if as_module:
        (folder / "labelling.py").write_text(definition)
        definition = "from labelling import labels\n"
    (folder / "register.py").write_text(definition + REGISTER)
    ran = subprocess.run(
        [sys.executable, str(folder / "register.py"), str(catalog)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout))


def test_three_processes_with_other_hash_seeds_and_folders_register_one_version(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.sqlite"
    registered = [register(tmp_path / f"at {seed}", catalog, seed) for seed in ("0", "1", "4711")]
    assert registered[0][0] == 1
    assert registered == [registered[0]] * 3


def test_a_script_and_a_module_register_one_version(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.sqlite"
    as_script = register(tmp_path / "script", catalog, "1")
    assert register(tmp_path / "module", catalog, "2", as_module=True) == as_script


@pytest.mark.parametrize(("old", "new"), [("make(10)", "make(11)"), ('"an", "of"', '"an"'), ('"nice"', '"kind"')])
def test_a_change_of_what_it_reaches_registers_another_version(tmp_path: Path, old: str, new: str) -> None:
    catalog = tmp_path / "catalog.sqlite"
    register(tmp_path / "first", catalog, "1")
    changed = register(tmp_path / "second", catalog, "1", DEFINITION.replace(old, new))
    assert changed[0] == 2
