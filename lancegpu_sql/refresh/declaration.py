"""From a binding to declared columns: every mistake a binding can hold is found here, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.models import ComputedColumn, FunctionVersion
from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.binding import ColumnRef, col
from lancegpu_sql.functions.casts import check_arguments
from lancegpu_sql.tables import Snapshot
from lancegpu_sql.tables.columns import proof_name

Declared = tuple[list[tuple[pa.Field, ComputedColumn]], str]
"""Fields with their declarations, and the name of the hidden column that proves them."""


def declare_one(
    snapshot: Snapshot,
    column: str,
    function: FunctionVersion,
    arguments: Mapping[str, ColumnRef],
    bound: Mapping[str, Any],
) -> Declared:
    """Declare `column` as `function` applied to columns, a struct result as one struct column.

    Parameters
    ----------
    arguments
        The column of each parameter.
    bound
        JSON values of a class's ``__init__`` parameters.

    Raises
    ------
    InvalidBinding
        A column is missing or does not suit its parameter.
    """
    inputs = input_ids(snapshot, function, arguments)
    proof = proof_name(column)
    declaration = _declaration(column, function, inputs, bound, proof, None)
    return [(pa.field(column, parse_type(function.output_type)), declaration)], proof


def declare_spread(
    snapshot: Snapshot,
    function: FunctionVersion,
    arguments: Mapping[str, ColumnRef],
    bound: Mapping[str, Any],
    renamed: Mapping[str, str],
) -> Declared:
    """Declare one column per field of a struct result; they are filled together.

    Parameters
    ----------
    renamed
        Field to column, where the column's name is not the field's.

    Raises
    ------
    InvalidBinding
        The result is no struct, `renamed` names a field it lacks, or a column does not suit its parameter.
    """
    result = parse_type(function.output_type)
    if not pa.types.is_struct(result):
        raise InvalidBinding(
            f"{function.name} gives {function.output_type}, not a struct: say which column takes it, "
            f'such as add_columns({{"{function.name}": {function.name}(...)}})',
            function=function.name,
        )
    fields = [result.field(at) for at in range(result.num_fields)]
    unknown = sorted(set(renamed) - {field.name for field in fields})
    if unknown:
        known = ", ".join(field.name for field in fields)
        raise InvalidBinding(
            f"{function.name} gives no field {unknown[0]!r}; its fields are {known}", function=function.name
        )
    inputs = input_ids(snapshot, function, arguments)
    names = {field.name: renamed.get(field.name, field.name) for field in fields}
    proof = proof_name(names[fields[0].name])
    return [
        (
            pa.field(names[field.name], field.type),
            _declaration(names[field.name], function, inputs, bound, proof, field.name),
        )
        for field in fields
    ], proof


def input_ids(snapshot: Snapshot, function: FunctionVersion, arguments: Mapping[str, ColumnRef]) -> dict[str, int]:
    """Return the Lance field id that feeds each parameter.

    Raises
    ------
    InvalidBinding
        A column is missing, or its type does not suit the parameter's.
    """
    check_arguments(function.name, function.parameters, arguments, snapshot.schema)
    return {parameter.name: snapshot.field_id(arguments[parameter.name].name) for parameter in function.parameters}


def repointed(
    snapshot: Snapshot, siblings: tuple[ComputedColumn, ...], function: FunctionVersion
) -> tuple[ComputedColumn, ...]:
    """Return the siblings' declarations pointed at another Function version, inputs and bound values as they were.

    Raises
    ------
    InvalidBinding
        The version takes other parameters, or gives another type than the columns have.
    """
    first = siblings[0]
    wanted = {parameter.name for parameter in function.parameters}
    if wanted != set(first.inputs):
        raise InvalidBinding(
            f"{function.name} version {function.version} takes {', '.join(sorted(wanted))}, but {first.column} is "
            f"bound to {', '.join(sorted(first.inputs))}; drop the column and add it again with a new binding",
            function=function.name,
        )
    inputs = input_ids(snapshot, function, {name: col(snapshot.field_name(at)) for name, at in first.inputs.items()})
    result = parse_type(function.output_type)
    for sibling in siblings:
        given = _field_type(result, sibling.output_field)
        present = snapshot.full_schema.field(sibling.column).type
        if given != present:
            raise InvalidBinding(
                f"{function.name} version {function.version} gives {given or 'no such field'} where column "
                f"{sibling.column} is {present}; add a new column for it",
                function=function.name,
                column=sibling.column,
            )
    return tuple(
        _declaration(one.column, function, inputs, one.bound, one.proof_column, one.output_field) for one in siblings
    )


def _field_type(result: pa.DataType, output_field: str | None) -> pa.DataType | None:
    if output_field is None:
        return result
    if not pa.types.is_struct(result) or result.get_field_index(output_field) < 0:
        return None
    return result.field(output_field).type


def _declaration(
    column: str,
    function: FunctionVersion,
    inputs: Mapping[str, int],
    bound: Mapping[str, Any],
    proof: str,
    output_field: str | None,
) -> ComputedColumn:
    return ComputedColumn(
        column=column,
        function=function.name,
        version=function.version,
        digest=function.digest,
        inputs=dict(inputs),
        bound=dict(bound),
        proof_column=proof,
        output_field=output_field,
    )
