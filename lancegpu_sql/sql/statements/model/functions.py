"""Statements about Functions."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.statement import Name, Options, Statement


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a Function; `type` in Arrow's text form."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, kw_only=True)
class CreateFunction(Statement):
    """CREATE FUNCTION f(x type, …) RETURNS type LANGUAGE python AS $$source$$ [WITH (…)]."""

    name: str
    parameters: tuple[FunctionParameter, ...]
    output_type: str
    output_nullable: bool
    source: str
    options: Options
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class CreateFunctionFromFile(Statement):
    """CREATE FUNCTION f FROM 'file.py[:name]' [WITH (…)]; `defined_as` is its name in the file."""

    name: str
    path: str
    defined_as: str
    options: Options
    replace: bool
    if_not_exists: bool


@dataclass(frozen=True, kw_only=True)
class ShowFunctions(Statement):
    """SHOW FUNCTIONS."""


@dataclass(frozen=True, kw_only=True)
class DescribeFunction(Statement):
    """DESCRIBE FUNCTION f [VERSION n]: every version, or one."""

    name: str
    version: int | None


@dataclass(frozen=True, kw_only=True)
class DropFunction(Statement):
    """DROP FUNCTION [IF EXISTS] f [VERSION n]."""

    name: Name
    version: int | None
    if_exists: bool
