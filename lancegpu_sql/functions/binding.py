"""A Function applied to columns: what `add_columns` declares."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions.init_types import suits

_VALUES = (bool, int, float, str, bytes)


@dataclass(frozen=True)
class ColumnRef:
    """A column of the table a Function is bound to, by name."""

    name: str

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def _refuse(self, *_: Any) -> NoReturn:
        raise InvalidBinding(
            f"{self!r} is a whole column and takes no operators: a Function is given columns as they are. Calculate inside "
            'the Function, or add a column for it first: add_columns({"y": "<SQL expression>"}).'
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _VALUES):
            self._refuse()
        return other.name == self.name if isinstance(other, ColumnRef) else NotImplemented

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __pos__ = __abs__ = __invert__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __contains__ = __len__ = __bool__ = _refuse


def col(name: str) -> ColumnRef:
    """Name a column, to hand it to a Function.

    Parameters
    ----------
    name
        The column's name in the table the result is bound to.

    Returns
    -------
    ColumnRef
        Calling a Function with it makes a `Binding` instead of running the Function.

    Raises
    ------
    InvalidBinding
        `name` is not a non-empty string.
    """
    if not _is_name(name):
        raise InvalidBinding(f'col() takes the name of a column, such as col("text"), not {name!r}.')
    return ColumnRef(name)


class Bindable(Protocol):
    """What a Binding holds: a Function, whether it is registered yet or not."""

    @property
    def name(self) -> str:
        """The name it has, or will have, in the catalog."""


@dataclass(frozen=True)
class Binding:
    """A Function with a column for each parameter, and values for the `__init__` of a class.

    Attributes
    ----------
    function
        A `Function` or a `RegisteredFunction`.
    arguments
        The column of each parameter.
    bound
        Values of a class's `__init__` parameters; they are part of what makes a stored value current.
    columns
        For a struct result spread over sibling columns: the column of each field that `rename` named.
    """

    function: Bindable
    arguments: Mapping[str, ColumnRef]
    bound: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def rename(self, columns: Mapping[str, str]) -> Binding:
        """Name the columns over which a struct result is spread.

        Parameters
        ----------
        columns
            Field of the struct to name of the column; fields left out keep their own name.

        Raises
        ------
        InvalidBinding
            Two fields would share a column, or a name is not a non-empty string.
        """
        given: Any = columns
        if not isinstance(given, Mapping) or not all(map(_is_name, (*given, *given.values()))):
            raise InvalidBinding("rename() takes a mapping of field names to column names, both non-empty strings.")
        names = list(columns.values())
        if len(set(names)) < len(names):
            raise InvalidBinding(f"rename() gives one column to two fields: {', '.join(names)}. Each needs its own.")
        return replace(self, columns={**self.columns, **columns})

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in (*self.arguments.items(), *self.bound.items())]
        return f"{self.function.name}({', '.join(given)})"


def names_a_column(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a call is a binding: one `col(...)` is enough, or a Binding where one belongs."""
    return any(isinstance(value, (ColumnRef, Binding)) for value in (*args, *kwargs.values()))


class InitValue(Protocol):
    """A parameter of a class's `__init__`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def required(self) -> bool:
        """Whether a value must be given."""

    @property
    def type(self) -> str | None:
        """Its Python type, as `init_types` writes it; None where any value may suit."""


def bind(
    function: Bindable,
    parameters: Sequence[str],
    init_parameters: Sequence[InitValue],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Binding:
    """Make a Binding of a call.

    Parameters
    ----------
    function
        What is called.
    parameters
        Names of the parameters that take columns, in order.
    init_parameters
        Those of a class's `__init__`.
    args, kwargs
        As called. Positional ones are columns.

    Raises
    ------
    InvalidBinding
        An argument is missing, unknown, given twice, a value where a column belongs, a column where a value does, or a
        value of another type than the annotation says.
    """
    init = {each.name: each for each in init_parameters}
    wanted = f"It takes {_listed(parameters, init_parameters)}."
    if len(args) > len(parameters):
        raise InvalidBinding(f"{function.name} was given {len(args)} columns. {wanted}", function=function.name)
    given = dict(zip(parameters, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise InvalidBinding(f"{function.name} was given {name!r} twice.", function=function.name)
        if name not in parameters and name not in init:
            raise InvalidBinding(f"{function.name} has no parameter {name!r}. {wanted}", function=function.name)
        given[name] = value
    missing = [name for name in parameters if name not in given]
    missing += [name for name, each in init.items() if each.required and name not in given]
    if missing:
        raise InvalidBinding(
            f"{function.name} lacks {', '.join(missing)}: give each parameter a column, and each parameter of "
            f"__init__ without a default a value. {wanted}",
            function=function.name,
        )
    for name in parameters:
        if isinstance(given[name], Binding):
            raise InvalidBinding(
                f"{function.name}: {name!r} takes a column, not the result of {given[name]!r}. Declare that one as a column "
                f'first, such as add_columns({{"a": {given[name]!r}}}), and write {name}=col("a").',
                function=function.name,
            )
        if not isinstance(given[name], ColumnRef):
            raise InvalidBinding(
                f"{function.name}: {name!r} takes a column, such as {name}=col(...), not the value "
                f"{_shortened(given[name])}. A value that is the same for all rows belongs to the __init__ of a class.",
                function=function.name,
            )
    bound = {name: given[name] for name in init if name in given}
    for name, value in bound.items():
        _check_bound(function.name, init[name], value)
    return Binding(function, {name: given[name] for name in parameters}, bound)


def _check_bound(function: str, parameter: InitValue, value: Any) -> None:
    name, wanted = parameter.name, parameter.type
    if isinstance(value, (ColumnRef, Binding)):
        raise InvalidBinding(
            f"{function}: {name!r} is a parameter of __init__ and takes a value, not {value!r}: "
            "an instance is made once per worker, not once per row.",
            function=function,
        )
    if not _is_json(value):
        raise InvalidBinding(
            f"{function}: the value of {name!r} is {_shortened(value)}, a {type(value).__name__}. It is kept with the "
            "column, as JSON: write None, a bool, a number, a string, or a list or dict of these.",
            function=function,
        )
    if wanted is not None and not suits(value, wanted):
        raise InvalidBinding(
            f"{function}: {name!r} of __init__ is to be {wanted}, not {_shortened(value)}, a {type(value).__name__}.",
            function=function,
        )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_json(value: Any) -> bool:
    """Only what JSON gives back exactly as it was: a tuple would come back as a list."""
    if type(value) in (type(None), bool, int, str):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(_is_json, value))
    return type(value) is dict and all(type(key) is str and _is_json(item) for key, item in value.items())


def json_or_none(value: Any) -> Any:
    """Give a default as JSON holds it, or None where JSON cannot hold it."""
    return json.loads(json.dumps(value)) if _is_json(value) else None


def _listed(parameters: Sequence[str], init_parameters: Sequence[InitValue]) -> str:
    columns = ", ".join(f"{name}=col(...)" for name in parameters)
    values = ", ".join(
        f"{each.name}=<{each.type or 'value'}>" + ("" if each.required else " (optional)") for each in init_parameters
    )
    return f"{columns}; {values}" if values else columns


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
