from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from lancegpu_sql.errors import InvalidFunction, LoadFailed, LoadTimeout
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.loading import load

FUNCTIONS = """
import json
import os
from lancegpu_sql import function

print("imported by", os.getpid())
open(__file__ + ".pid", "w").write(str(os.getpid()))

@function(gpu=True, gpu_class="l4")
def louder(text: str) -> str:
    return text.upper() + "!"

@function(name="sizes")
class Sizes:
    def __call__(self, text: str) -> int:
        return len(text)

def plain(text: str) -> str:
    return text.lower()
"""


def written(folder: Path, text: str, name: str = "file_type_of.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def test_a_file_gives_its_functions_in_their_order(tmp_path: Path) -> None:
    found = inspect_file(written(tmp_path, FUNCTIONS))
    assert [each.version.name for each in found] == ["louder", "sizes"]
    assert found[0].version.placement.gpu_class == "l4"
    assert found[1].version.output_type == "int64"


def test_a_file_is_imported_in_another_process_only(tmp_path: Path) -> None:
    path = written(tmp_path, FUNCTIONS)
    inspect_file(path)
    assert int(Path(f"{path}.pid").read_text()) != os.getpid()
    assert path.stem not in sys.modules


@pytest.mark.parametrize("name", ["sizes", "plain"])
def test_one_function_is_found_by_name_decorated_or_not(tmp_path: Path, name: str) -> None:
    (found,) = inspect_file(written(tmp_path, FUNCTIONS), name)
    assert found.version.name == name


def test_what_a_file_gives_can_be_loaded(tmp_path: Path) -> None:
    text = "from lancegpu_sql import function\n@function\ndef loud_text(text: str) -> str: return text.upper()"
    (found,) = inspect_file(written(tmp_path, text))
    assert load(found.payload).call(pa.record_batch({"text": ["a"]})).to_pylist() == ["A"]


def test_a_file_of_a_package_may_import_relatively(tmp_path: Path) -> None:
    written(tmp_path, "MARK = '?'", "shop/marks.py")
    written(tmp_path, "", "shop/__init__.py")
    path = written(tmp_path, "from .marks import MARK\n" + FUNCTIONS, "shop/texts.py")
    assert len(inspect_file(path)) == 2


def test_an_import_that_raises_shows_the_files_own_lines(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"ZeroDivisionError") as failed:
        inspect_file(written(tmp_path, "x = 1 / 0"))
    assert "x = 1 / 0" in failed.value.facts["user_traceback"]
    assert "importlib" not in failed.value.facts["user_traceback"]


def test_an_error_derived_from_one_of_ours_is_told_as_that_one(tmp_path: Path) -> None:
    text = "from lancegpu_sql.errors import InvalidFunction\nclass NoModel(InvalidFunction): ...\nraise NoModel('no model')"
    with pytest.raises(InvalidFunction, match="no model"):
        inspect_file(written(tmp_path, text))


def test_the_folder_that_the_caller_stands_in_is_not_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "functions", FUNCTIONS)
    written(tmp_path, "raise RuntimeError('not Python's own')", "base64.py")
    monkeypatch.chdir(tmp_path)
    assert len(inspect_file(path)) == 2


def test_an_import_that_ends_its_process_is_told_with_what_it_printed(tmp_path: Path) -> None:
    text = "import os, sys\nprint('no licence', file=sys.stderr, flush=True)\nos._exit(3)"
    with pytest.raises(LoadFailed, match="exit status 3") as failed:
        inspect_file(written(tmp_path, text))
    assert "no licence" in failed.value.facts["user_traceback"]


def test_an_import_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(LoadTimeout, match="in the __init__ of a class"):
        inspect_file(written(tmp_path, "import threading\nthreading.Event().wait()"), timeout_seconds=2)


@pytest.mark.parametrize(
    ("text", "file", "name", "says"),
    [
        ("x = 1", "a.py", None, "decorate one with @function"),
        (FUNCTIONS, "a.py", "louder_still", "Those it defines: louder, sizes"),
        ("import os\ndef words(x: str) -> int: ...\ndef _of(x): ...", "a.py", "word", "Those it defines: words\\."),
        (FUNCTIONS, "my-functions.py", None, "rename it"),
        (FUNCTIONS, "json.py", None, "name of another module"),
        (FUNCTIONS, "a.txt", None, "no Python file"),
        ("from lancegpu_sql import function\n@function\ndef f(x) -> int: ...", "a.py", None, "'x' of f has no type"),
    ],
)
def test_a_file_without_what_is_wanted_says_what_to_write(
    tmp_path: Path, text: str, file: str, name: str | None, says: str
) -> None:
    with pytest.raises(InvalidFunction, match=says):
        inspect_file(written(tmp_path, text, file), name)


ANSWERS = [
    {"error": "__class__", "message": "x", "facts": {}},
    {"error": "annotations", "message": "x", "facts": {}},
    {"error": "InvalidFunction"},
    {"error": "InvalidFunction", "message": "x", "facts": []},
    {"functions": [{"version": {}, "payload": ""}]},
    {"functions": 5},
    [],
    5,
]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_a_file_that_answers_itself_is_refused(tmp_path: Path, answer: object) -> None:
    text = json.dumps(answer)
    path = written(
        tmp_path,
        f"import os\nfor fd in range(3, 9):\n    try:\n        os.write(fd, {text!r}.encode())\n    except OSError:\n        pass\nos._exit(0)\n",
    )
    with pytest.raises(LoadFailed, match="answered in the place of"):
        inspect_file(path)


@pytest.mark.parametrize("path", ["x" * 5000 + ".py", "a\0b.py", "~nobody-of-that-name/f.py", "/tmp"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(InvalidFunction, match=r"give the path of a \.py file"):
        inspect_file(path)
