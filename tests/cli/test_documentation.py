"""docs/cli.md tells of every command and option, and of no other; help is there for each."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import program_of
from programs import run_program
from suites import TESTS
from typer.main import get_command

from lancegpu_sql.cli import main
from lancegpu_sql.cli.app import app
from lancegpu_sql.refresh.request import RefreshOptions
from lancegpu_sql.refresh.views.request import ViewOptions

SHARED = {"--db", "--help", "-h"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its name."""
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, (*path, name))
    if not below:
        yield " ".join(path), command


COMMANDS = dict(commands(get_command(app)))
SECTIONS = dict(
    re.findall(
        r"^### `lancegpu ([a-z -]+?)(?: \[?[A-Z][^`]*)?`\n(.*?)(?=^#|\Z)",
        (TESTS.parent / "docs" / "cli.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
)


def options_of(command: Any) -> set[str]:
    """The options of a command that are its own."""
    return {name for option in command.params for name in option.opts if name.startswith("-")} - SHARED


def test_every_command_has_its_section_and_every_section_its_command():
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented(name: str):
    told = set(re.findall(r"`(--?[a-z-]+)[^`]*`", SECTIONS.get(name, "")))
    assert told == options_of(COMMANDS[name])


@pytest.mark.parametrize("name", ["", "functions", "classes", "jobs", *COMMANDS])
def test_help_is_printed_for_every_command(name: str, capsys: pytest.CaptureFixture[str]):
    assert main([*name.split(), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: lancegpu {name}".rstrip())


@pytest.mark.parametrize("group", ["", "functions", "classes", "schedule", "jobs"])
def test_no_list_of_commands_breaks_off_in_the_middle_of_a_sentence(group: str, capsys: pytest.CaptureFixture[str]):
    assert main([*group.split(), "--help"]) == 0
    _usage, *lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.endswith("...")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_has_words_of_help(name: str):
    assert all(getattr(parameter, "help", None) for parameter in COMMANDS[name].params)


def test_refresh_has_every_option_that_a_refresh_has():
    options = {f"--{name.replace('_', '-')}" for name in RefreshOptions.model_fields}
    assert options_of(COMMANDS["refresh"]) == options | {"--timeout", "--json", "--no-wait"}


def test_refresh_view_has_every_option_that_a_view_has():
    options = {f"--{name.replace('_', '-')}" for name in ViewOptions.model_fields}
    assert options_of(COMMANDS["refresh-view"]) == options | {"--timeout", "--json", "--no-wait"}


def test_docs_refresh_tells_of_every_option():
    text = (TESTS.parent / "docs" / "refresh.md").read_text()
    told = re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)
    assert sorted(told) == sorted(RefreshOptions.model_fields)


def test_the_first_example_works_as_written_after_the_programs_of_the_readme(fresh_folder: Path):
    run_program(program_of((TESTS.parent / "README.md").read_text()).write(fresh_folder), folder=fresh_folder)
    example = re.search(r"```sh\n(.*?)```", (TESTS.parent / "docs" / "cli.md").read_text(), re.DOTALL)
    assert example is not None
    shell = f'set -eu\nlancegpu() {{ "{sys.executable}" -m lancegpu_sql.cli "$@"; }}\n{example[1]}'
    ran = subprocess.run(["bash", "-c", shell], cwd=fresh_folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "finished" in ran.stdout
