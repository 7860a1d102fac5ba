"""Pickling by value: a function or class with all that it uses of its own module."""

from __future__ import annotations

import io
import linecache
import sys
import threading
from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import cloudpickle

from lancegpu_sql.errors import InvalidFunction

# What cloudpickle writes in place of every file name.
_NO_FILE = "<dynamic-code>"
# cloudpickle keeps one list, for the whole process, of modules to pickle by value.
_one_at_a_time = threading.Lock()


def pickled(target: Any, name: str) -> tuple[bytes, dict[str, str]]:
    """Pickle an undecorated function or class.

    Parameters
    ----------
    target
        What to pickle. Nothing is left to the worker's copy of its own module, which may have changed by then.
    name
        For the message of an error.

    Returns
    -------
    bytes
        The pickle.
    dict of str to str
        The text of each file (or notebook cell) the code comes from, so that tracebacks on a worker can show it.

    Raises
    ------
    InvalidFunction
        It holds something that cannot be sent to another process.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=5)
    with _one_at_a_time, _module_by_value(getattr(target, "__module__", None)):
        try:
            pickler.dump(target)
        except Exception as problem:  # pickling runs the objects' own code
            raise InvalidFunction(
                f"{name} holds something that cannot be sent to a worker ({type(problem).__name__}: {problem}). "
                "Make such things (connections, locks, open files, loaded models) in the __init__ of a class, which "
                "runs on the worker, or import them from a module."
            ) from problem
    lines = {file: "".join(linecache.getlines(file)) for file in sorted(pickler.files)}
    return stream.getvalue(), {file: text for file, text in lines.items() if text}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, but code keeps the name of its file: without it a traceback shows no lines."""

    def __init__(self, stream: io.BytesIO, protocol: int) -> None:
        self.files: set[str] = set()
        # Before the base's own: that is when the table is read.
        self.dispatch_table = ChainMap({CodeType: self._reduce_code}, cloudpickle.Pickler.dispatch_table)
        super().__init__(stream, protocol=protocol)

    def _reduce_code(self, code: CodeType) -> tuple[Any, ...]:
        self.files.add(code.co_filename)
        make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
        return make, tuple(code.co_filename if part == _NO_FILE else part for part in parts)


@contextmanager
def _module_by_value(module_name: str | None) -> Iterator[None]:
    module = sys.modules.get(module_name or "")
    if module is None or module.__name__ in ("__main__", *cloudpickle.list_registry_pickle_by_value()):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
