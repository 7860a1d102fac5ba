"""Functions defined by a text instead of a file, in a process of their own: the text's code never runs in the caller's.

`python -m lancegpu_sql.functions.source` is that process: it reads what is asked for as JSON from its standard input and
answers as `inspection` does.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from lancegpu_sql.errors import InvalidFunction, LoadFailed
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import Definition, as_function
from lancegpu_sql.functions.faults import described, summary
from lancegpu_sql.functions.inspection import answer_with, asked, hint_at_packages
from lancegpu_sql.functions.packaging import TEXT_OF_MODULE
from lancegpu_sql.functions.shipped_module import show_source

# Of all such texts, so that a Function's content does not depend on where it was written.
_MODULE = "lancegpu_function_source"

Typed = tuple[str, str, bool]
"""A parameter: its name, its Arrow type as text, whether it may be null."""


def inspect_source(
    name: str,
    source: str,
    parameters: Sequence[Typed],
    output: tuple[str, bool],
    *,
    options: Mapping[str, Any],
    timeout_seconds: float = 300.0,
) -> Definition:
    """Make a Function of the text that defines it, in a process of its own.

    Parameters
    ----------
    name
        What the text defines: a function or a class, decorated or not.
    source
        Python, indented as a whole or not.
    parameters
        In the order of the callable's own.
    output
        Its Arrow type as text, and whether it may be null.
    options
        As of `@function`; they win over a decorator's.

    Raises
    ------
    InvalidFunction, InvalidName
        The text defines no such thing, or one with other parameters.
    LoadFailed
        It is no Python, or raised; `user_traceback` says where.
    LoadTimeout
        It took longer than `timeout_seconds`.
    """
    request = {
        "name": name,
        "source": source,
        "parameters": list(parameters),
        "output": list(output),
        "options": dict(options),
    }
    (definition,) = asked(
        "lancegpu_sql.functions.source",
        (),
        f"The source of Function {name}",
        given=json.dumps(request).encode(),
        timeout_seconds=timeout_seconds,
    )
    return definition


def _functions_of(request: Mapping[str, Any]) -> list[Function]:
    name, parameters, (output_type, output_nullable) = request["name"], request["parameters"], request["output"]
    module = _executed(name, _dedented(request["source"]))
    target = getattr(module, name, None)
    if not callable(target):
        there_are = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise InvalidFunction(
            f"The source of Function {name} defines no {name}: write def {name}({', '.join(p[0] for p in parameters)}). "
            f"It defines {', '.join(there_are) or 'nothing that can be called'}."
        )
    # Loads pyarrow, which a worker that only runs the text does not need here.
    import pyarrow as pa

    schema = pa.schema([pa.field(each, parse_type(kind), nullable) for each, kind, nullable in parameters])
    output_schema = pa.schema([pa.field("value", parse_type(output_type), output_nullable)])
    declared = ", ".join(schema.names)
    _check_names(name, target, declared)
    function = as_function(
        target, **{**request["options"], "name": name, "input_schema": schema, "output_schema": output_schema}
    )
    own = ", ".join(each.name for each in function.signature.parameters)
    if own != declared:
        raise InvalidFunction(
            f"CREATE FUNCTION {name}({declared}), but its source takes ({own}): write the parameters alike."
        )
    return [function]


def _check_names(name: str, target: Any, declared: str) -> None:
    """Compare a plain function's own parameters, before its types are read in words of Python."""
    code = getattr(target.target if isinstance(target, Function) else target, "__code__", None)
    if code is None:
        return
    own = ", ".join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    takes_batch = code.co_argcount == 1 and "RecordBatch" in str(getattr(target, "__annotations__", ""))
    if own != declared and not takes_batch:
        raise InvalidFunction(
            f"CREATE FUNCTION {name}({declared}), but its source takes ({own}): write the parameters alike."
        )


def _executed(name: str, source: str) -> ModuleType:
    """A module made of a text; tracebacks show its lines."""
    path = f"<source of {name}>"
    show_source(path, source)
    module = ModuleType(_MODULE)
    module.__file__ = path
    setattr(module, TEXT_OF_MODULE, source)
    sys.modules[_MODULE] = module
    try:
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - this process is for that
    except BaseException as error:  # the text's own code: SystemExit is its fault too
        facts = described(error)
        raise LoadFailed(
            f"The source of Function {name} could not be run ({summary(error)}).{hint_at_packages(error)}",
            error_type=facts["error_type"],
            user_traceback=facts["traceback_text"],
        ) from None
    return module


def _dedented(source: str) -> str:
    """The text as Python takes it, whether it begins behind the opening quotes or on the next line."""
    first, newline, _ = source.partition("\n")
    return source.lstrip(" \t") if first.strip() or not newline else textwrap.dedent(source)


if __name__ == "__main__":
    wanted = json.loads(sys.stdin.buffer.read())
    answer_with(lambda: _functions_of(wanted))
