"""Code objects in a form that says what they do and not where they were written."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType

# Flags that change what the code does; the others say how or where it was compiled (nested, future statements).
_MEANINGFUL_FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
# What a class body stores about its own place in the file, and (since Python 3.13) about its methods' code.
_PLACE_NAMES = {"__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
_READS_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_WRITES_GLOBAL = {"STORE_GLOBAL", "DELETE_GLOBAL"}

Form = tuple[object, ...]


def code_form(code: CodeType, constant_form: Callable[[object], object]) -> Form:
    """Give a code object as nested tuples of what its instructions do.

    File names and line numbers are left out, and so is every constant that no instruction reads, such as a docstring.
    It is taken over instructions and not over bytes, so that the order of constants does not matter either.

    Parameters
    ----------
    code
        Of a function, a lambda, a comprehension or a class body.
    constant_form
        Gives a constant's form; sets among them have no order.
    """
    instructions: list[object] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_NAME", "STORE_GLOBAL") and instruction.argval in _PLACE_NAMES and instructions:
            instructions.pop()
            continue
        argument = instruction.argval
        if instruction.opcode in dis.hasconst:
            inner = code_form(argument, constant_form) if isinstance(argument, CodeType) else constant_form(argument)
            argument = ("constant", inner)
        elif not isinstance(argument, (int, str, tuple, type(None))):
            argument = str(argument)
        instructions.append((instruction.opname, argument))
    return (
        "code",
        code.co_flags & _MEANINGFUL_FLAGS,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        code.co_exceptiontable,
        tuple(instructions),
    )


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Give a code object and all that stand inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def globals_read(code: CodeType) -> list[str]:
    """Name the globals that code reads, at any depth, sorted."""
    return sorted(_globals(code, _READS_GLOBAL))


def globals_written(code: CodeType) -> set[str]:
    """Name the globals that code itself assigns: a state it keeps, not a part of what it is."""
    return _globals(code, _WRITES_GLOBAL)


def _globals(code: CodeType, operations: set[str]) -> set[str]:
    return {
        str(instruction.argval)
        for each in nested_codes(code)
        for instruction in dis.get_instructions(each)
        if instruction.opname in operations
    }
