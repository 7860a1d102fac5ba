"""Which modules a Function's source imports for certain, and which of them its workers will not have."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lancegpu_sql.functions.environment import canonical
from lancegpu_sql.functions.payload import Payload

# What left the standard library, by the minor version that has it no more (PEP 594 and the release notes).
_REMOVED = {
    12: frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd"}),
    13: frozenset(
        [
            "aifc",
            "audioop",
            "cgi",
            "cgitb",
            "chunk",
            "crypt",
            "imghdr",
            "lib2to3",
            "mailcap",
            "msilib",
            "nis",
            "nntplib",
            "ossaudiodev",
            "pipes",
            "sndhdr",
            "spwd",
            "sunau",
            "telnetlib",
            "uu",
            "xdrlib",
        ]
    ),
}
_OWN = frozenset({"lancegpu_sql", "pyarrow", "cloudpickle", "__future__", "__main__"})
_CALLED = ("__init__", "__call__")


def imports_needed(packed: Payload) -> tuple[str, ...]:
    """Name the packages and modules outside of Python that loading and calling a Function imports for certain, sorted.

    What is imported under a condition or a `try`, or in a helper, may never be.
    """
    found: set[str] = set()
    if packed.module is not None and packed.module.source is not None:
        found.update(_of_module(packed.module.source, packed.module.qualname))
        found.discard(packed.module.module.partition(".")[0])
    else:
        for text in packed.sources.values():
            found.update(_of_target(_parsed(text), packed.name.partition(".")[0]))
    found -= {name.partition("/")[0].removesuffix(".py") for name in _names_of_code(packed.code)}
    return tuple(sorted(found - _OWN - standard_library(packed.python_version)))


def standard_library(python_version: str) -> frozenset[str]:
    """Name the modules that a minor version of Python brings along, as far as this one knows."""
    minor = int(python_version.partition(".")[2])
    gone = frozenset(name for since, names in _REMOVED.items() if since <= minor for name in names)
    return frozenset(sys.stdlib_module_names) - gone


def missing_here(needed: Iterable[str], search_path: Iterable[str]) -> list[str]:
    """Return what cannot be imported by a worker with this process's packages."""
    folders = list(search_path)
    return [name for name in needed if not _is_here(name) and not _is_in(name, folders)]


def missing_in_lock(needed: Iterable[str], search_path: Iterable[str], packages: Mapping[str, str]) -> dict[str, str]:
    """Return what is surely not among locked packages, with the package that has it here.

    A package may have modules of any name: only of those that are installed here it is known which.
    """
    folders, homes = list(search_path), importlib.metadata.packages_distributions()
    missing = {}
    for name in needed:
        owners = sorted({canonical(one) for one in homes.get(name, ())})
        likely = canonical(name) in packages or any(owner in packages for owner in owners)
        if owners and not likely and not _is_in(name, folders):
            missing[name] = owners[0]
    return missing


def missing_in(folder: Path, needed: Iterable[str]) -> list[str]:
    """Return what an environment that was made does not have."""
    places = [str(path) for path in (folder / "lib").glob("python3*/site-packages")]
    return [name for name in needed if not _is_in(name, places)]


def outside(needed: Iterable[str], search_path: Iterable[str]) -> tuple[str, ...]:
    """Return what no folder of the search path has: an environment must have it."""
    folders = list(search_path)
    return tuple(name for name in needed if not _is_in(name, folders))


def _of_module(source: str, qualname: str) -> Iterator[str]:
    tree = _parsed(source)
    yield from _imported(tree.body)
    yield from _of_target(tree, qualname.partition(".")[0])


def _of_target(tree: ast.Module, name: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield from _imported(node.body)
        elif isinstance(node, ast.ClassDef) and node.name == name:
            yield from _imported(node.body)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name in _CALLED:
                    yield from _imported(method.body)


def _imported(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.With):
            yield from _imported(node.body)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):  # a cell of a notebook may hold what only that reads
        return ast.Module([], [])


def _names_of_code(code: bytes) -> list[str]:
    if not code:
        return []
    # Few Functions have any.
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        return archive.namelist()


def _is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def _is_in(name: str, folders: list[str]) -> bool:
    try:
        return importlib.machinery.PathFinder.find_spec(name, folders) is not None
    except (ImportError, ValueError):
        return False
