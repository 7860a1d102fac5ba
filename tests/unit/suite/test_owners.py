"""Each foreign library is imported by its owner alone, also where import-linter cannot see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites import TESTS

PACKAGE = TESTS.parent / "lancegpu_sql"
OWNERS = {
    "pyarrow.flight": {"workers", "server"},
    "pyarrow._flight": set(),
    "lance": {"tables"},
    "lancedb": set(),
    "duckdb": {"query"},
    "_duckdb": set(),
    "sqlalchemy": {"catalog"},
    "sqlglot": {"sql"},
    "kubernetes": {"placement"},
    "pynvml": {"placement"},
}


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports: by statement, or by name through importlib."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(given.value) for given in node.args[:1] if isinstance(given, ast.Constant))


@pytest.mark.parametrize("library", list(OWNERS))
def test_a_library_is_imported_by_its_owner_alone(library: str):
    strangers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in OWNERS[library]
        for name in imports_of(path)
        if name == library or name.startswith(f"{library}.")
    }
    assert strangers == set()
