"""A Function made known to DuckDB as an Arrow UDF."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import duckdb
import pyarrow as pa

from lancegpu_sql.query.arguments import FunctionTypes
from lancegpu_sql.query.engine import types_for


def make_udf(
    maker: duckdb.DuckDBPyConnection,
    name: str,
    types: FunctionTypes,
    called: Callable[..., pa.Array],
    *,
    volatile: bool,
) -> None:
    """Make a UDF that every connection to the engine sees.

    Parameters
    ----------
    maker
        A connection that runs nothing else.
    called
        Takes columns as DuckDB gives them, at most 2,048 rows at a time, nulls among them, in threads of DuckDB's. It must
        live as long as the UDF.
    volatile
        Keeps DuckDB from moving calls, from computing them while it plans, and from taking equal ones for one.
    """
    *parameters, output = types_for(maker, [*types.readable_parameters, types.readable_output])
    # DuckDB counts the parameters of a callable.
    named = [inspect.Parameter(f"p{index}", inspect.Parameter.POSITIONAL_ONLY) for index in range(len(parameters))]
    called.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    maker.create_function(  # type: ignore[call-overload]  # its types know enumerations only
        name, called, parameters, output, type="arrow", null_handling="special", side_effects=volatile
    )
