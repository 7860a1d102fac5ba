"""Packing a Function for its workers: by reference to a module with that module's source, or by value.

Nothing is unpickled here; that happens in `loading`, on a worker.
"""

from __future__ import annotations

import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.code import code_form, nested_codes
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.environment import own_python_version
from lancegpu_sql.functions.payload import ModuleSource, Payload
from lancegpu_sql.functions.pickling import pickled
from lancegpu_sql.functions.signature import Signature

TEXT_OF_MODULE = "__lancegpu_text__"
"""In a module made of a text: that text."""


def pack(
    target: Callable[..., Any],
    signature: Signature,
    *,
    name: str | None = None,
    python_version: str | None = None,
    code: bytes = b"",
) -> bytes:
    """Pack a function or class.

    Parameters
    ----------
    target
        Undecorated. One that stands in an importable module, whose file still says what was imported, is packed as a
        reference with the module's source; any other is pickled by value, with what it uses of its own module.
    signature
        Its own.
    name
        For messages; the target's own if left out.
    python_version
        Of its workers; this process's if left out. On another it can come as source only.
    code
        Modules that travel with it, packed.

    Returns
    -------
    bytes
        What `loading.load` takes.

    Raises
    ------
    InvalidFunction
        It holds something that cannot be sent to another process, or is to run on another Python and has no source.
    """
    name = name or str(getattr(target, "__name__", "function"))
    is_foreign = python_version not in (None, own_python_version())
    module = _text_source(target) or _module_source(target) if is_foreign else _module_source(target)
    if is_foreign and (module is None or module.source is None):
        raise InvalidFunction(
            f"{name} is to run on Python {python_version}, and its code here is that of Python {own_python_version()}: it can "
            "go there as source only. Put it into a file and register that (db.register_file, lancegpu functions register), or "
            "into a module that can be imported."
        )
    pickle, sources = (b"", {}) if module is not None else pickled(target, name)
    return Payload(
        name=name,
        python_version=python_version or own_python_version(),
        calling=signature.calling,
        is_class=signature.is_class,
        by_keyword=tuple(each.name for each in signature.parameters if each.by_keyword),
        input_schema=signature.input_schema,
        output_field=pa.field("value", signature.output_type, signature.output_nullable),
        search_path=tuple(dict.fromkeys(_search_path())),
        module=module,
        sources=sources,
        pickled=pickle,
        code=code,
    ).to_bytes()


def _text_source(target: Any) -> ModuleSource | None:
    """Say what text defined a target, if one did that came with a statement."""
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    text = getattr(module, TEXT_OF_MODULE, None)
    if module is None or text is None:
        return None
    return ModuleSource(module.__name__, target.__qualname__, text, getattr(module, "__file__", None), is_package=False)


def _module_source(target: Any) -> ModuleSource | None:
    """Say where a target stands in a module that a worker can import as it is here, if it does."""
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    qualname = getattr(target, "__qualname__", "")
    if module is None or module.__name__ == "__main__" or getattr(module, "__spec__", None) is None:
        return None
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if found is not target and not (isinstance(found, Function) and found.target is target):
        return None
    path = getattr(module, "__file__", None)
    if path is None or not path.endswith(".py") or module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return ModuleSource(module.__name__, qualname, None, path, is_package=False)
    source = _source_as_imported(module, path)
    if source is None:
        return None
    return ModuleSource(module.__name__, qualname, source, str(Path(path).resolve()), hasattr(module, "__path__"))


def _source_as_imported(module: ModuleType, path: str) -> str | None:
    """Read a module's file; None if it does not say (any more) what the module's functions do."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        written = {_form(code) for code in nested_codes(compile(source, path, "exec", dont_inherit=True))}
    except (OSError, SyntaxError, ValueError):
        return None
    return source if all(_form(code) in written for code in _codes_of(module, path)) else None


def _form(code: CodeType) -> str:
    return repr((code.co_name, code_form(code, repr)))


def _codes_of(module: ModuleType, path: str) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        target = value.target if isinstance(value, Function) else value
        is_own_class = isinstance(target, type) and target.__module__ == module.__name__
        for each in vars(target).values() if is_own_class else (target,):
            if isinstance(each, FunctionType) and each.__code__.co_filename == path:
                yield each.__code__


def _search_path() -> Iterator[str]:
    """Give the folders from which this process imports, beyond Python's own and those of installed packages."""
    own = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        inside = any(folder.is_relative_to(path) for path in own if path.name != "bin")
        if folder.exists() and not inside:
            yield str(folder)
