"""Programs inside Markdown: what to run, with which files beside it, and what it should print.

A fenced block's first word is its language, the others say what it is for:

- ``python``: part of the program; the blocks of one document are one program, in their order. ``python fragment`` is
  not run.
- ``<language> file=NAME``: a file that stands in the folder where the program runs.
- ``text output``: what the program prints; several are taken together. ``...`` stands for anything.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

# A fence may be indented and longer than three marks; it ends with one like it.
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<marks>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=marks) *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Program:
    """One document's program."""

    source: str
    files: dict[str, str]
    output: str | None

    def write(self, folder: Path) -> Path:
        """Put the program and its files into a folder; the path of the program."""
        for name, text in self.files.items():
            (folder / name).write_text(text)
        path = folder / "program.py"
        path.write_text(self.source)
        return path


def program_of(markdown: str) -> Program:
    """The program that a Markdown text holds; its source is empty where there is none."""
    sources: list[str] = []
    files: dict[str, str] = {}
    outputs: list[str] = []
    for match in _FENCE.finditer(markdown):
        language, *words = match["info"].split() or [""]
        body = re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        named = [word.removeprefix("file=") for word in words if word.startswith("file=")]
        if named:
            files[named[0]] = body
        elif language == "python" and "fragment" not in words:
            sources.append(body)
        elif "output" in words:
            outputs.append(body)
    return Program("\n".join(sources), files, "".join(outputs) if outputs else None)


def prints_as_told(expected: str, printed: str) -> bool:
    """Whether a program printed what its document says."""
    return doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
