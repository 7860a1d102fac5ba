"""Statements about the upkeep of tables."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.sql.statements.model.statement import Name, Options, Statement


@dataclass(frozen=True, kw_only=True)
class OptimizeTable(Statement):
    """OPTIMIZE [TABLE | MATERIALIZED VIEW] t [WITH (…)]; `wait` is one of the options."""

    table: Name
    options: Options
    wait: bool


@dataclass(frozen=True, kw_only=True)
class ExplainOptimize(Statement):
    """EXPLAIN OPTIMIZE [TABLE | MATERIALIZED VIEW] t [WITH (…)]."""

    table: Name
    options: Options
