"""The demo, on a small folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lancegpu_sql.cli import main

FILES = {
    "program.py": "import os\n\n\ndef main() -> None:\n    print(os.getcwd())\n\n\nmain()\n",
    "page.html": "<!DOCTYPE html>\n<html><head><title>A page</title></head><body><p>Words.</p></body></html>\n",
    "data.json": '{"name": "a thing", "sizes": [1, 2, 3], "nested": {"deep": true, "deeper": null}}\n',
    "empty": "",
}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / ".hidden").write_text("not one of them")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_the_demo_tells_its_whole_story_twice_in_a_row(library: Path, capsys: pytest.CaptureFixture[str]):
    for _ in range(2):
        assert main(["demo", str(library), "--files", "16"]) == 0
        told, progress = capsys.readouterr()
        assert f"library: 4 files of {library}" in told
        assert "simulated" in told
        assert re.search(r"project\.label \+3 is waiting on GPU class 'default': .*refresh of library\.label", told)
        assert re.search(r"library\.label \+3: finished, 4 rows computed in .* s$", progress, re.MULTILINE)
        assert re.search(
            r"project\.label \+3: finished, 2 rows computed in .* s, .* s of them waiting$", progress, re.MULTILINE
        )
        assert re.search(r"^python +code", told, re.MULTILINE)
        assert "after one file was added: 1 row computed of 3" in told
        assert "once more: 0 rows computed of 3" in told


def test_a_demo_that_is_kept_leaves_a_database_and_takes_no_folder_that_holds_something(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    kept = tmp_path / "kept"
    monkeypatch.setenv("LANCEGPU_DB", str(kept))
    assert main(["demo", str(library), "--files", "8", "--keep", str(kept)]) == 0
    capsys.readouterr()
    assert main(["columns"]) == 0
    assert re.search(r"library +label +file_type version 1 +4 ", capsys.readouterr().out)
    assert main(["demo", str(library), "--keep", str(kept)]) == 1
