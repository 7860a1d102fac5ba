"""Importing a module from the source that was shipped with a Function, whatever stands on this machine's disk."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from lancegpu_sql.functions.payload import ModuleSource


def import_shipped(shipped: ModuleSource) -> ModuleType:
    """Import a module by its name, with the shipped text in place of the file's.

    What it imports relatively, or from modules beside it, comes from `sys.path` as ever.
    """
    if shipped.source is not None:
        sys.modules.pop(shipped.module, None)
        sys.meta_path.insert(0, _Shipped(shipped.module, shipped.source, shipped.path, shipped.is_package))
    return importlib.import_module(shipped.module)


def extend_search_path(folders: Iterable[str]) -> None:
    """Put folders of the packing process before this one's own, in their order, where this one lacks them."""
    missing = [folder for folder in folders if folder not in sys.path and Path(folder).exists()]
    sys.path[:0] = missing
    importlib.invalidate_caches()


def show_source(path: str, source: str) -> None:
    """Let tracebacks show the lines that run, whatever the file says here.

    Without a time of change, `linecache` never asks the disk.
    """
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)


class _Shipped(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads one module; and stands in for its parent packages where the disk has none."""

    def __init__(self, module: str, source: str, path: str | None, is_package: bool) -> None:
        self._module = module
        self._source = source
        self._path = path or f"<source of {module}>"
        self._is_package = is_package
        show_source(self._path, source)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - importlib's signature
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the shipped module, and for parents of it that nothing else finds."""
        if fullname == self._module:
            spec = importlib.machinery.ModuleSpec(fullname, self, origin=self._path, is_package=self._is_package)
            spec.has_location = True
            if self._is_package:
                spec.submodule_search_locations = [str(Path(self._path).parent)]
            return spec
        if self._module.startswith(f"{fullname}.") and not self._is_found_elsewhere(fullname, path):
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        return None

    def _is_found_elsewhere(self, fullname: str, path: Sequence[str] | None) -> bool:
        others = (
            finder for finder in sys.meta_path if not isinstance(finder, _Shipped) and hasattr(finder, "find_spec")
        )
        return any(finder.find_spec(fullname, path) is not None for finder in others)

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - importlib's signature
        """Give the shipped text, for `inspect` and tracebacks."""
        return self._source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - importlib's signature
        """Compile the shipped text under its own file name."""
        return self.source_to_code(self._source, self._path)

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002 - importlib's signature
        """Tell whether the module is a package's `__init__`."""
        return self._is_package
