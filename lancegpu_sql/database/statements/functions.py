"""CREATE, SHOW, DESCRIBE and DROP FUNCTION carried out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.database.functions import (
    check_placement_here,
    drop_function,
    own_frame,
    register_definition,
)
from lancegpu_sql.database.statements.context import Context, as_json
from lancegpu_sql.errors import AlreadyExists, FunctionNotFound, InvalidFunction, LoadFailed
from lancegpu_sql.functions.definition import Definition
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.options import FunctionOptions, known_options
from lancegpu_sql.functions.source import inspect_source
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.sql.statements import model

# What a statement says in its own words.
_SAID_OTHERWISE = ("name", "input_schema", "output_schema")
OPTIONS = tuple(each.name for each in fields(FunctionOptions) if each.name not in _SAID_OTHERWISE)

_SHOWN = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.int64()),
        ("parameters", pa.string()),
        ("returns", pa.string()),
        ("gpu", pa.bool_()),
        ("gpu_class", pa.string()),
        ("gpus", pa.int64()),
        ("cpus", pa.int64()),
        ("deterministic", pa.bool_()),
        ("created_at", pa.timestamp("us", "UTC")),
    ]
)
_AS_JSON = {
    "env": ("", """a JSON object of variables, such as env = '{"TOKENIZERS_PARALLELISM": "false"}'"""),
    "secrets": ("", """a JSON object of variables, such as secrets = '{"HF_TOKEN": "env:HF_TOKEN"}'"""),
    "pip": ("[", """one, or a JSON list of several, such as pip = '["magika==1.*", "numpy>=2"]'"""),
    "code": ("[", """one, or a JSON list of several, such as code = '["mypackage"]'"""),
}
"""Options that may be JSON: with what it then begins, and what people are told of it."""

_DESCRIBED = pa.schema(
    [
        *_SHOWN,
        ("calling", pa.string()),
        ("init_parameters", pa.string()),
        ("concurrency", pa.int64()),
        ("batch_size", pa.int64()),
        ("gpu_memory_bytes", pa.int64()),
        ("image", pa.string()),
        ("env", pa.string()),
        ("secrets", pa.string()),
        ("python_version", pa.string()),
        ("pip", pa.string()),
        ("lock", pa.string()),
        ("code", pa.string()),
        ("digest", pa.string()),
    ]
)


def create(context: Context, statement: model.CreateFunction) -> QueryResult:
    """Register a Function of the text that defines it."""
    options = _options(context, statement.options)

    def definition() -> Definition:
        with _showing_the_line(f"<source of {statement.name}>"):
            return inspect_source(
                statement.name,
                statement.source,
                [(each.name, each.type, each.nullable) for each in statement.parameters],
                (statement.output_type, statement.output_nullable),
                options=options,
            )

    return _register(context, statement, definition)


def create_from_file(context: Context, statement: model.CreateFunctionFromFile) -> QueryResult:
    """Register a Function of a file, by the statement's name."""
    options = {**_options(context, statement.options), "name": statement.name}

    def definition() -> Definition:
        with _showing_the_line(statement.path):
            (found,) = inspect_file(statement.path, statement.defined_as, options=options)
        return found

    return _register(context, statement, definition)


@contextmanager
def _showing_the_line(path: str) -> Iterator[None]:
    """Tell of code that cannot be run where in it that was."""
    try:
        yield
    except LoadFailed as problem:
        frame = own_frame(str(problem.facts.get("user_traceback") or ""), path)
        raise LoadFailed("\n".join(filter(None, [problem.message, frame])), **problem.facts) from None


def show(context: Context, statement: model.ShowFunctions) -> QueryResult:  # noqa: ARG001 - one shape for all
    """List the latest version of each Function."""
    return context.rows(_SHOWN, [_row(each) for each in context.services.catalog.functions()])


def describe(context: Context, statement: model.DescribeFunction) -> QueryResult:
    """Tell all of every version of a Function, or of one."""
    catalog = context.services.catalog
    if statement.version is None:
        found = catalog.function_versions(statement.name)
    else:
        found = [catalog.function(statement.name, statement.version)]
    return context.rows(_DESCRIBED, [_row(each) | _details(each) for each in found])


def drop(context: Context, statement: model.DropFunction) -> QueryResult:
    """Forget a Function, or one version; a macro of that name, where there is no such Function, is DuckDB's to drop."""
    *before, name = statement.name
    known = None if before else _latest(context, name)
    if known is None and statement.version is None:
        return _drop_macro(context, statement, name)
    try:
        drop_function(context.services, name, statement.version)
    except FunctionNotFound:
        if not statement.if_exists:
            raise
    return context.done()


def _drop_macro(context: Context, statement: model.DropFunction, name: str) -> QueryResult:
    try:
        return context.engine(statement)
    except Exception as exc:
        if len(statement.name) > 1:
            raise
        raise FunctionNotFound(
            f"There is neither a Function {name!r} nor a macro; SHOW FUNCTIONS lists the Functions.", name=name
        ) from exc


def _options(context: Context, given: model.Options) -> dict[str, Any]:
    options: dict[str, Any] = context.options(given, OPTIONS)
    for name, (begins, form) in _AS_JSON.items():
        written = options.get(name)
        if isinstance(written, str) and written.lstrip().startswith(begins):
            try:
                options[name] = json.loads(written)
            except (ValueError, RecursionError):
                raise InvalidFunction(f"{name} is {form}.") from None
    FunctionOptions(**known_options(options))  # what contradicts itself is refused before any code runs
    return options


def _register(
    context: Context,
    statement: model.CreateFunction | model.CreateFunctionFromFile,
    definition: Callable[[], Definition],
) -> QueryResult:
    known = _latest(context, statement.name)
    if known is not None and statement.if_not_exists:
        return context.done()
    if known is not None and not statement.replace:
        raise AlreadyExists(
            f"There is a Function {known.name!r}: write CREATE OR REPLACE FUNCTION to register another version of it.",
            name=known.name,
        )
    defined = definition()
    check_placement_here(context.services, defined.version.name, defined.version.placement)
    version = register_definition(context.services, defined)
    return context.rows(_SHOWN, [_row(version)])


def _latest(context: Context, name: str) -> FunctionVersion | None:
    try:
        return context.services.catalog.function(name)
    except FunctionNotFound:
        return None


def _row(version: FunctionVersion) -> dict[str, Any]:
    placement = version.placement
    return {
        "name": version.name,
        "version": version.version,
        "parameters": ", ".join(
            f"{each.name} {each.type}{'' if each.nullable else ' NOT NULL'}" for each in version.parameters
        ),
        "returns": version.output_type + ("" if version.output_nullable else " NOT NULL"),
        "gpu": placement.gpu,
        "gpu_class": placement.gpu_class,
        "gpus": placement.gpus,
        "cpus": placement.cpus,
        "deterministic": version.deterministic,
        "created_at": version.created_at,
    }


def _details(version: FunctionVersion) -> dict[str, Any]:
    return {
        "calling": version.calling,
        "init_parameters": ", ".join(each.name for each in version.init_parameters),
        "concurrency": version.placement.concurrency,
        "batch_size": version.placement.batch_size,
        "gpu_memory_bytes": version.placement.gpu_memory_bytes,
        "image": version.placement.image,
        "env": as_json(version.env),
        "secrets": as_json(version.placement.secrets),
        "python_version": version.python_version,
        "pip": as_json(list(version.environment.pip)) if version.environment else None,
        "lock": version.environment.lock if version.environment else None,
        "code": as_json(list(version.environment.code)) if version.environment else None,
        "digest": version.digest,
    }
