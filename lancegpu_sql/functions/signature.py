"""The signature of a Function: what it takes and gives, in Arrow types, and how it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.annotations import NO_ANNOTATION, Annotation, evaluated_hints, read_annotation
from lancegpu_sql.functions.arrow_types import check_supported
from lancegpu_sql.functions.binding import json_or_none
from lancegpu_sql.functions.init_types import type_words

Calling = Literal["row", "arrays", "record_batch"]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Parameter:
    """A parameter that takes a column. `by_keyword`: it can be given by name only."""

    name: str
    type: pa.DataType
    nullable: bool
    by_keyword: bool = False


@dataclass(frozen=True)
class InitParameter:
    """A parameter of a class's `__init__`: a value of each binding.

    `default` is None where JSON cannot hold it, `type` where the annotation says nothing that can be checked.
    """

    name: str
    required: bool
    default: Any = None
    type: str | None = None


@dataclass(frozen=True)
class Signature:
    """What a Function takes and gives, and how it is called.

    Attributes
    ----------
    parameters
        In order. Where it takes one record batch, the batch's columns.
    output_type, output_nullable
        Of the result: one value per row.
    calling
        `row`: once per row, with Python values. `arrays`: once per batch, with an array for each parameter.
        `record_batch`: once per batch, with the batch.
    is_class
        It is made once per worker, from `init_parameters`, and then called.
    """

    parameters: tuple[Parameter, ...]
    output_type: pa.DataType
    output_nullable: bool
    calling: Calling
    is_class: bool = False
    init_parameters: tuple[InitParameter, ...] = ()

    @property
    def input_schema(self) -> pa.Schema:
        """The columns of a batch it is called with."""
        return pa.schema([pa.field(each.name, each.type, each.nullable) for each in self.parameters])


def signature_of(
    target: Callable[..., Any], input_schema: pa.Schema | None = None, output_schema: pa.Schema | None = None
) -> Signature:
    """Read a callable's signature.

    Parameters
    ----------
    target
        An undecorated function, or a class with `__call__`.
    input_schema, output_schema
        Types that annotations do not say; where both speak, these win. A field's nullability is taken as it is. An
        output schema of one field gives the result's type, one of several the fields of a struct.

    Raises
    ------
    InvalidFunction
        A type is missing or unknown, the shapes are mixed, or the callable cannot be called with columns.
    """
    name = getattr(target, "__name__", type(target).__name__)
    is_class = isinstance(target, type)
    called = _called(target, name)
    parameters, names = _parameters(called, name, skip_self=is_class)
    hints = evaluated_hints(called, name, _closed_over(called))
    read = {each: _read(hints, each, f"parameter {each!r} of {name}", typed=input_schema is not None) for each in names}
    result = _read(hints, "return", f"the result of {name}", typed=output_schema is not None)
    for schema, option in ((input_schema, "input_schema"), (output_schema, "output_schema")):
        _check_schema(schema, option)

    calling = _calling(name, read, result)
    if calling == "record_batch":
        columns = _batch_columns(name, input_schema)
    else:
        columns = _typed_parameters(name, parameters, read, input_schema)
    output_type, output_nullable = _output(name, calling, result, output_schema)
    init_parameters = _init_parameters(target, name) if isinstance(target, type) else ()
    shared = {each.name for each in columns} & {each.name for each in init_parameters}
    if shared:
        raise InvalidFunction(
            f"{name} has {', '.join(sorted(shared))} both in __init__ and among its columns: a binding names both "
            "alike, so rename one."
        )
    return Signature(columns, output_type, output_nullable, calling, is_class, init_parameters)


def _called(target: Any, name: str) -> Any:
    """Give the function that is called for each row or batch."""
    if isinstance(target, type):
        called = next((vars(each)["__call__"] for each in target.__mro__ if "__call__" in vars(each)), None)
        if called is None:
            raise InvalidFunction(f"{name} is a class without __call__: write what it does for a row in __call__.")
    elif inspect.isroutine(target) or hasattr(target, "__wrapped__"):
        called = target
    else:
        raise InvalidFunction(
            f"{name} is an object that can be called, which cannot be made anew on each worker: decorate its class, "
            "or wrap it in a function with annotations."
        )
    if _is_asynchronous(called) or _is_asynchronous(inspect.unwrap(called)):
        raise InvalidFunction(
            f"{name} is asynchronous: write a plain function. For an endpoint, concurrency=8 makes eight calls at a time."
        )
    if inspect.isgeneratorfunction(inspect.unwrap(called)):
        raise InvalidFunction(f"{name} yields: return one value for each row (a list, to give several).")
    return called


def _is_asynchronous(called: Any) -> bool:
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


def _closed_over(called: Any) -> dict[str, Any]:
    """Names that only the closure has, for annotations of a function defined inside another."""
    function = inspect.unwrap(called)
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


def _parameters(called: Any, name: str, *, skip_self: bool) -> tuple[dict[str, inspect.Parameter], list[str]]:
    try:
        parameters = dict(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        raise InvalidFunction(f"{name} does not say its parameters: wrap it in a function with annotations.") from None
    if skip_self and not isinstance(called, (staticmethod, classmethod)):
        parameters.pop(next(iter(parameters), ""), None)
    for parameter in parameters.values():
        if parameter.kind in _VARIADIC:
            raise InvalidFunction(
                f"{name} takes {parameter}: name each parameter, so that a column can be given to it."
            )
    if not parameters:
        raise InvalidFunction(f"{name} has no parameters: a Function takes at least one column.")
    return parameters, list(parameters)


def _read(hints: Mapping[str, Any], name: str, where: str, *, typed: bool) -> Annotation:
    """Read an annotation; one that names no Arrow type (`dict`, `Any`) is none where a schema says the type."""
    if name not in hints:
        return NO_ANNOTATION
    try:
        return read_annotation(hints[name], where)
    except InvalidFunction:
        if typed:
            return NO_ANNOTATION
        raise


def _check_schema(schema: Any, option: str) -> None:
    if schema is None:
        return
    if not isinstance(schema, pa.Schema):
        raise InvalidFunction(
            f'{option} is a pyarrow.Schema, such as pa.schema([("name", pa.float32())]), not {schema!r}.'
        )
    if len(set(schema.names)) < len(schema.names) or not schema.names:
        raise InvalidFunction(f"{option} needs at least one field, each with a name of its own: {schema.names}.")
    for field in schema:
        check_supported(field.type)


def _calling(name: str, read: Mapping[str, Annotation], result: Annotation) -> Calling:
    shapes = {annotation.shape for annotation in read.values()}
    if "record_batch" in shapes:
        if len(read) > 1:
            raise InvalidFunction(f"{name} takes a pa.RecordBatch and more: the batch holds all its columns, alone.")
        return "record_batch"
    if "array" in shapes:
        values = [each for each, annotation in read.items() if annotation.shape != "array"]
        if values:
            raise InvalidFunction(
                f"{name} takes arrays, but {', '.join(map(repr, values))} is annotated otherwise or not at all: "
                "annotate every parameter with an Arrow array, such as pa.Array, or none."
            )
        return "arrays"
    if result.shape in ("array", "record_batch"):
        raise InvalidFunction(
            f"{name} gives a whole batch but takes single values: annotate its parameters with Arrow arrays, such as "
            "pa.StringArray, or its result with the type of one value."
        )
    return "row"


def _batch_columns(name: str, input_schema: pa.Schema | None) -> tuple[Parameter, ...]:
    if input_schema is None:
        raise InvalidFunction(
            f'{name} takes a pa.RecordBatch: say its columns with input_schema=pa.schema([("text", pa.utf8()), ...]).'
        )
    return tuple(Parameter(field.name, field.type, field.nullable) for field in input_schema)


def _typed_parameters(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    read: Mapping[str, Annotation],
    input_schema: pa.Schema | None,
) -> tuple[Parameter, ...]:
    if input_schema is not None and set(input_schema.names) != set(parameters):
        raise InvalidFunction(
            f"input_schema of {name} has the fields {', '.join(input_schema.names)}, but its parameters are "
            f"{', '.join(parameters)}: give one field for each."
        )
    typed = []
    for each, parameter in parameters.items():
        field = None if input_schema is None else input_schema.field(each)
        arrow_type = read[each].type if field is None else field.type
        if arrow_type is None:
            raise InvalidFunction(_missing_type(name, each, read[each]))
        # Where the annotation speaks of nulls, it says what the code can take; a schema's default is nullable.
        speaks = read[each].shape == "value"
        nullable = read[each].nullable if field is None or (speaks and field.nullable) else field.nullable
        typed.append(Parameter(each, arrow_type, nullable, parameter.kind not in _POSITIONAL))
    return tuple(typed)


def _missing_type(name: str, parameter: str, annotation: Annotation) -> str:
    if annotation.shape == "array":
        return (
            f"parameter {parameter!r} of {name} is an array of no particular type: annotate it with a class such as "
            f"pa.StringArray or with Annotated[pa.Array, pa.list_(pa.float32(), 384)], or give input_schema."
        )
    return (
        f"parameter {parameter!r} of {name} has no type: annotate it, such as {parameter}: str | None, "
        f'or give input_schema=pa.schema([("{parameter}", pa.utf8()), ...]).'
    )


def _output(
    name: str, calling: Calling, result: Annotation, output_schema: pa.Schema | None
) -> tuple[pa.DataType, bool]:
    if output_schema is not None:
        if len(output_schema) > 1:
            return pa.struct(list(output_schema)), True
        return output_schema.field(0).type, output_schema.field(0).nullable
    if result.type is not None:
        if calling != "row" and result.shape == "value" and not result.is_numpy:
            raise InvalidFunction(
                f"{name} takes whole batches, so its result is an array: annotate it with Annotated[pa.Array, ...] or "
                "a class such as pa.FloatArray."
            )
        return result.type, result.nullable
    if calling == "row":
        raise InvalidFunction(
            f"the result of {name} has no type: annotate it, such as -> float | None, or give "
            'output_schema=pa.schema([("value", pa.float32())]).'
        )
    raise InvalidFunction(
        f"the result of {name} has no particular type: annotate it with a class such as pa.FloatArray or with "
        "Annotated[pa.Array, pa.list_(pa.float32(), 384)], or give output_schema."
    )


def _init_parameters(target: type, name: str) -> tuple[InitParameter, ...]:
    if target.__init__ is object.__init__:  # type: ignore[misc]
        return ()
    parameters = list(inspect.signature(target.__init__).parameters.values())[1:]  # type: ignore[misc]
    hints = _init_hints(target, name)
    found = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InvalidFunction(
                f"{name}: __init__ takes {parameter.name!r} by position only; bindings give it by name."
            )
        if parameter.kind not in _VARIADIC:
            required = parameter.default is inspect.Parameter.empty
            default = None if required else json_or_none(parameter.default)
            words = type_words(hints[parameter.name]) if parameter.name in hints else None
            found.append(InitParameter(parameter.name, required, default, words))
    return tuple(found)


def _init_hints(target: type, name: str) -> dict[str, Any]:
    """Give the annotations of `__init__`; none where they cannot be evaluated: its values may be of any type."""
    try:
        return evaluated_hints(target.__init__, name, _closed_over(target.__init__))  # type: ignore[misc]
    except InvalidFunction:
        return {}
