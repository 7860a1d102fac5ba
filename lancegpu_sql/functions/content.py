"""The content of Python objects as bytes that are the same in every process.

What counts by name and what by content follows how a Function is shipped: an object that a worker can import from
another module is that module's matter; everything else travels with the Function, so it is part of it.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import hashlib
import sys
import types
from collections.abc import Mapping
from typing import Any

from lancegpu_sql.functions.code import code_form, globals_read, globals_written
from lancegpu_sql.functions.decorator import Function

# What a module knows about its own place.
_PLACE_GLOBALS = {
    "__name__", "__file__", "__path__", "__spec__", "__package__", "__loader__", "__doc__", "__builtins__", "__cached__",
}  # fmt: skip
# Of a class's special attributes only functions count, and these: the rest is derived from them, or says where it is.
_CLASS_DATA = {"__slots__", "__annotations__", "__pydantic_fields__"}
_DERIVED_CLASS_DATA = {"_abc_impl"}
# Objects of these modules are states and services, not values: no two processes have the same.
_STATEFUL_MODULES = ("_random", "_thread", "asyncio", "logging", "numpy.random", "random", "threading", "weakref")
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


_LruCache: Any = type(functools.lru_cache(lambda: None))


class _NoValueError(Exception):
    """An object has a state that cannot be read as a value: a lock, a connection."""


class Content:
    """Collects objects, in an order that does not depend on the process.

    Parameters
    ----------
    own_module
        Name of the module whose objects count by content; those of other modules count by name, if they have one.
    """

    def __init__(self, own_module: str | None) -> None:
        self._own_module = own_module
        self._chunks: list[bytes] = []
        # Objects seen, by identity, with their number: a second meeting (or a cycle) counts as that number. They are
        # kept, so that no other object gets the identity of a dead one.
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._inside_foreign = False
        self._states: dict[int, set[str]] = {}

    def digest(self) -> bytes:
        """Give the digest of all that was added."""
        digest = hashlib.blake2b(digest_size=16)
        for chunk in self._chunks:
            digest.update(len(chunk).to_bytes(8, "little"))
            digest.update(chunk)
        return digest.digest()

    def add(self, value: Any) -> None:
        """Add an object with all that it reaches."""
        if isinstance(value, Function):
            value = value.target
        if type(value) in _ATOMS:
            self._add_atom(value)
        elif type(value) in (tuple, frozenset):
            self._add_container(value)
        elif id(value) in self._seen:
            self._say("again", self._seen[id(value)])
        elif (name := self._name_elsewhere(value)) is not None:
            self._say("name", name)
        else:
            self._seen[id(value)] = len(self._kept)
            self._kept.append(value)
            self._add_content(value)

    def _say(self, *words: object) -> None:
        self._chunks.append(" ".join(map(str, words)).encode("utf-8", "surrogatepass"))

    def _add_atom(self, value: Any) -> None:
        self._say(type(value).__name__)
        self._chunks.append(value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass"))

    def _name_elsewhere(self, value: Any) -> str | None:
        """Give the name under which a worker finds an object in another module, if it does."""
        if isinstance(value, types.ModuleType):
            return "own module" if self._is_own(value.__name__) else f"module {value.__name__}"
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or self._is_own(module):
            return None
        found: Any = sys.modules.get(str(module))
        for part in str(name).split("."):
            found = getattr(found, part, None)
        return f"{module}:{name}" if found is value else None

    def _is_own(self, module: str | None) -> bool:
        return module is None or module in (self._own_module, "__main__", "__mp_main__")

    def _add_content(self, value: Any) -> None:
        match value:
            case type():
                self._add_class(value)
            case types.FunctionType():
                self._add_function(value)
            case types.CodeType():
                self._say("code", code_form(value, self._apart))
            case types.CellType():
                self._add_cell(value)
            case types.MethodType():
                self._add_parts("method", value.__func__, value.__self__)
            case types.BuiltinFunctionType():
                owner = None if isinstance(value.__self__, types.ModuleType) else value.__self__
                self._add_parts(f"builtin {value.__qualname__}", owner)
            case staticmethod() | classmethod():
                self._add_parts(type(value).__name__, value.__func__)
            case property():
                self._add_parts("property", value.fget, value.fset, value.fdel)
            case functools.cached_property():
                self._add_parts("cached property", value.func)
            case _LruCache():
                self._add_parts("lru cache", sorted(value.cache_parameters().items()), value.__wrapped__)
            case types.MappingProxyType():
                self._add_container(dict(value))
            case _ if isinstance(value, _DESCRIPTORS):
                self._say("descriptor", value.__name__)
            case _ if type(value) in (list, dict, set, bytearray):
                self._add_container(value)
            case _ if self._is_own(type(value).__module__):
                self._add_own(value)
            case _:
                self._add_foreign(value)

    def _add_parts(self, kind: str, *parts: Any) -> None:
        self._say(kind)
        for part in parts:
            self.add(part)

    def _add_container(self, value: Any) -> None:
        self._say(type(value).__name__, len(value))
        if isinstance(value, bytearray):
            self._chunks.append(bytes(value))
        elif isinstance(value, dict):
            for key, item in value.items():
                self.add(key)
                self.add(item)
        elif isinstance(value, (set, frozenset)):
            self._chunks.extend(sorted(self._apart(item) for item in value))
        else:
            for item in value:
                self.add(item)

    def _apart(self, value: Any) -> bytes:
        """Take the digest of one object alone, so that it does not depend on what is added before or after."""
        apart = Content(self._own_module)
        if type(value) in _ATOMS:
            apart.add(value)
            return apart.digest()
        apart._seen, apart._kept = dict(self._seen), list(self._kept)
        apart._inside_foreign, apart._states = self._inside_foreign, self._states
        apart.add(value)
        return apart.digest()

    def _add_function(self, function: types.FunctionType) -> None:
        code = function.__code__
        self._say("function", code_form(code, self._apart))
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for name, cell in sorted(
            zip(code.co_freevars, function.__closure__ or (), strict=True), key=lambda pair: pair[0]
        ):
            self._say("closure", name)
            self._add_cell(cell)
        state = self._states_of(function.__globals__)
        for name in globals_read(code):
            if name in _PLACE_GLOBALS:
                continue
            self._say("global", name)
            if name in state:
                self._say("state")
            elif name in function.__globals__:
                self.add(function.__globals__[name])
            else:
                self._say("builtin" if hasattr(builtins, name) else "missing")
        for name, item in sorted(vars(function).items()):
            if name != "__wrapped__":  # the closure holds it; and what only names it does not call it
                self._say("attribute", name)
                self.add(item)

    def _states_of(self, namespace: Mapping[str, Any]) -> set[str]:
        """Name the globals of a module that its own functions assign, such as a model kept after the first call."""
        if id(namespace) not in self._states:
            self._states[id(namespace)] = {name for code in _codes_of(namespace) for name in globals_written(code)}
        return self._states[id(namespace)]

    def _add_cell(self, cell: types.CellType) -> None:
        try:
            value = cell.cell_contents
        except ValueError:
            self._say("empty")
            return
        self.add(value)

    def _add_class(self, kind: type) -> None:
        self._say("class")
        self.add(type(kind))
        self._say("bases", len(kind.__bases__))
        for base in kind.__bases__:
            self.add(base)
        documented = kind.__bases__ != (object,)  # such bases may read the text: a tool's description, a prompt
        for name, item in sorted(vars(kind).items()):
            special = name.startswith("__") and name.endswith("__")
            counts = (
                not special or name in _CLASS_DATA or callable(item) or isinstance(item, (staticmethod, classmethod))
            )
            if name in _DERIVED_CLASS_DATA or name == "__class_getitem__":
                continue
            if counts or (name == "__doc__" and documented):
                self._say("attribute", name)
                self.add(item)

    def _add_own(self, value: Any) -> None:
        """Add an object of an own class; a lock or a connection counts by its class, and what holds it by the rest."""
        try:
            self._add_state(value)
        except _NoValueError:
            if self._inside_foreign:
                raise
            self._say("instance")
            self.add(type(value))
            self.add(dict(getattr(value, "__dict__", {})))

    def _add_state(self, value: Any) -> None:
        """Add an object as pickle would take it apart."""
        try:
            reducer = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        except Exception as problem:
            raise _NoValueError from problem
        if isinstance(reduced, str):
            self._say("name", type(value).__module__, reduced)
            return
        self._say("object", len(reduced))
        make, args, *rest = reduced
        self.add(make)
        self.add(args)
        for index, part in enumerate(rest):
            # After the state come iterators over the items of a list and of a dict.
            self.add(list(part) if index in (1, 2) and part is not None else part)

    def _add_foreign(self, value: Any) -> None:
        """Add an object of another module's class: by its state if that is a value, else by its class alone."""
        chunks, kept, inside = len(self._chunks), len(self._kept), self._inside_foreign
        self._inside_foreign = True
        try:
            if _is_stateful(type(value)):
                raise _NoValueError
            self._add_state(value)
        except _NoValueError:
            if inside:
                raise
            del self._chunks[chunks:]
            for forgotten in self._kept[kept:]:
                del self._seen[id(forgotten)]
            del self._kept[kept:]
            self._say("instance of", type(value).__module__, type(value).__qualname__)
        finally:
            self._inside_foreign = inside


def _is_stateful(kind: type) -> bool:
    return any(
        each.__module__ == module or each.__module__.startswith(f"{module}.")
        for each in kind.__mro__
        for module in _STATEFUL_MODULES
    )


def _codes_of(namespace: Mapping[str, Any]) -> list[types.CodeType]:
    codes = []
    for value in list(namespace.values()):
        target = value.target if isinstance(value, Function) else value
        members = list(vars(target).values()) if isinstance(target, type) else [target]
        codes += [each.__code__ for each in members if isinstance(each, types.FunctionType)
                  and each.__globals__ is namespace]  # fmt: skip
    return codes
