"""What is typed into the shell beside SQL, and when a statement is complete."""

from __future__ import annotations

import pytest

from lancegpu_sql.cli.shell import commands
from lancegpu_sql.cli.shell.commands import (
    Command,
    Help,
    Listed,
    Quit,
    Rows,
    Statement,
    Timing,
    command_in,
    is_complete,
)
from lancegpu_sql.errors import InvalidInput


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("SELECT 1;", Statement("SELECT 1;")),
        ("\\d", Statement("SHOW TABLES")),
        ("\\d docs;", Statement("DESCRIBE docs")),
        ("\\d My table", Statement('DESCRIBE "My table"')),
        ("\\df", Listed("functions")),
        ("\\dj", Listed("jobs")),
        ("\\timing", Timing(None)),
        ("\\timing off", Timing(False)),
        ("\\rows 5", Rows(5)),
        ("\\rows 0", Rows(None)),
        ("\\?", Help()),
        ("\\q", Quit()),
        ("exit;", Quit()),
        ("help", Help()),
    ],
)
def test_commands_are_read(typed: str, command: Command):
    assert command_in(typed) == command


@pytest.mark.parametrize("typed", ["\\zz", "\\timing often", "\\rows many", "\\q now"])
def test_what_is_no_command_is_refused(typed: str):
    with pytest.raises(InvalidInput):
        command_in(typed)


def test_every_command_is_helped_with_and_completed():
    assert all(f"  {name} " in commands.HELP for name in commands.NAMES)


@pytest.mark.parametrize("typed", ["", "  ", "SELECT 1;", "SELECT ';';", "SELECT 1; -- so", "\\d docs", "quit", "help"])
def test_complete_texts_are_run(typed: str):
    assert is_complete(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "SELECT 1",
        "SELECT ';",
        "SELECT 1 -- ;",
        "CREATE FUNCTION f(x utf8) RETURNS utf8 LANGUAGE python AS $$ x;",
        "/* ;",
    ],
)
def test_what_goes_on_is_not_complete(typed: str):
    assert not is_complete(typed)
