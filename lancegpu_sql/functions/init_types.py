"""Python types of a class's `__init__` values: read from annotations, kept as text, checked when a value is bound.

Simple ones only: ``int``, ``float``, ``str``, ``bool``, ``None``, ``list[T]``, ``dict[str, T]`` and unions of these, which
are what JSON can hold. Any other annotation says nothing, and every value passes. Standard library only.
"""

from __future__ import annotations

import ast
import types
import typing
from typing import Any

_PLAIN: dict[Any, str] = {int: "int", float: "float", str: "str", bool: "bool", type(None): "None", None: "None"}
# As type checkers have it: an int will do for a float, and a bool is an int.
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
}


def type_words(hint: Any) -> str | None:
    """Return an annotation as text, such as ``list[int] | None``; None where it is not a simple one."""
    if hint in (list, dict):
        return str(hint.__name__)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return _PLAIN.get(hint) if hint is None or isinstance(hint, type) else None
    if origin is typing.Annotated:
        return type_words(args[0])
    inner = [type_words(arg) for arg in args]
    if origin in (typing.Union, types.UnionType):
        return None if None in inner else " | ".join(map(str, inner))
    if origin not in (list, dict):
        return None
    return str(origin.__name__) if None in inner else f"{origin.__name__}[{', '.join(map(str, inner))}]"


def suits(value: Any, words: str) -> bool:
    """Tell whether a JSON value is of a type that `type_words` wrote."""
    return _suits(value, ast.parse(words, mode="eval").body)


def _suits(value: Any, kind: ast.expr) -> bool:
    match kind:
        case ast.BinOp(left=left, right=right):
            return _suits(value, left) or _suits(value, right)
        case ast.Constant(value=None):
            return value is None
        case ast.Name(id=name):
            return isinstance(value, _ACCEPTED.get(name, object))
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return isinstance(value, list) and all(_suits(each, item) for each in value)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, item])):
            return isinstance(value, dict) and all(_suits(k, key) and _suits(v, item) for k, v in value.items())
    return True
