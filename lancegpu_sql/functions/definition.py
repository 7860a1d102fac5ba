"""From a live Function to what a catalog keeps of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion, InitParameter, Parameter
from lancegpu_sql.functions.arrow_types import format_type
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.identity import digest_of, python_version
from lancegpu_sql.functions.options import FunctionOptions, known_options
from lancegpu_sql.functions.packaging import pack


def as_function(target: Function | Callable[..., Any], name: str | None = None, **options: Any) -> Function:
    """Make a Function of a callable and options, or give a Function with some of its options changed.

    Raises
    ------
    InvalidFunction, InvalidName
        The callable or an option makes no sense.
    """
    if name is not None:
        options["name"] = name
    if isinstance(target, Function):
        return target.changed(**options)
    return Function(target, FunctionOptions(**known_options(options)))


@dataclass(frozen=True)
class Definition:
    """A Function version before the catalog has numbered it: what a live Function and a file's both come to."""

    version: FunctionVersion
    payload: bytes


def define(function: Function) -> Definition:
    """Take a Function's digest and pack it.

    Raises
    ------
    InvalidFunction
        It holds something that cannot be sent to a worker.
    """
    options, signature = function.options, function.signature
    version = FunctionVersion(
        name=function.name,
        version=0,
        digest=digest_of_function(function),
        parameters=tuple(
            Parameter(name=each.name, type=format_type(each.type), nullable=each.nullable)
            for each in signature.parameters
        ),
        output_type=format_type(signature.output_type),
        output_nullable=signature.output_nullable,
        calling=signature.calling,
        is_class=signature.is_class,
        init_parameters=tuple(
            InitParameter(name=each.name, required=each.required, default=each.default, type=each.type)
            for each in signature.init_parameters
        ),
        deterministic=options.deterministic,
        env=dict(options.env),
        python_version=python_version(),
        created_at=datetime.now(UTC),
        placement=FunctionPlacement(**options.placement()),
    )
    return Definition(version, pack(function.target, signature, name=function.name))


def digest_of_function(function: Function) -> str:
    """Take the digest of a Function as it is now: it is another once a helper it reaches has changed."""
    options = function.options
    return digest_of(function.target, function.signature, env=options.env, deterministic=options.deterministic)
