"""What a plan is: stages whose calls are made in large batches, and the query over what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Describe = Callable[[str], list[tuple[str, str]]]
"""Names and DuckDB types of a query's result, without running it; raises InvalidQuery.

The text may call Functions by their names. They must be allowed where DuckDB allows expressions without side effects, or
it refuses to reuse an alias: ``SELECT f(x) AS v, v + 1``.
"""

ReadTree = Callable[[str], object]
"""DuckDB's own reading of a SELECT, as ``json_serialize_sql`` gives it, parsed; None where it gives none.

With it a query is planned only if what sqlglot writes is read by DuckDB as what the user wrote.
"""


@dataclass(frozen=True)
class StoredColumn:
    """A computed column of a table, which may hold what a call asks for.

    Attributes
    ----------
    column
        Its name.
    function
        The Function that computes it, as in `TextCall.function`.
    version_digest
        The version that its values were computed with.
    inputs
        The columns that are its arguments, in the order of the parameters.
    fully_fresh
        Whether no row of it is out of date.
    proved, proof
        Where some rows are out of date: a relation with the table's columns in their order and, after them, the boolean
        column `proof`, which is true for the rows whose value is not out of date, beside those of other columns that
        name the same relation. A plan reads it in the table's place and calls the Function for the other rows. None
        where the engine has no such relation.
    added
        Whether that relation alone has the column: whoever writes the query does not see it.
    """

    column: str
    function: str
    version_digest: str
    inputs: tuple[str, ...]
    fully_fresh: bool
    proved: str | None = None
    proof: str | None = None
    added: bool = False


@dataclass(frozen=True)
class PlannedCall:
    """One call of a stage, made once for each of its rows.

    Attributes
    ----------
    result
        The column of the stage that holds what it returns.
    function
        The Function, as in `TextCall.function`.
    arguments
        The columns of the stage's input that are its arguments, in the order of the parameters. Their types are those of
        the expressions; the engine casts them as DuckDB casts arguments.
    mask
        A boolean column of the input: rows for which it is not true are not computed, and their result is null.
    try_
        Whether a row that fails gives null.
    """

    result: str
    function: str
    arguments: tuple[str, ...]
    mask: str | None = None
    try_: bool = False


@dataclass(frozen=True)
class Stage:
    """Rows of a query, to which the results of calls are added as columns.

    Attributes
    ----------
    name
        The relation that later SQL reads, once: the columns `carried`, then one for each call. Its rows keep the order
        of the input's.
    input_sql
        What it reads. It may read the relations of earlier stages, and call Functions in place.
    calls
        They do not depend on each other.
    carried
        The columns of the input that are handed on.
    """

    name: str
    input_sql: str
    calls: tuple[PlannedCall, ...]
    carried: tuple[str, ...]


@dataclass(frozen=True)
class QueryPlan:
    """How a query is run.

    Attributes
    ----------
    stages
        In order: each may read those before it.
    final_sql
        The query over them; its columns are those of the query, in order.
    in_place
        The Functions that are called in place, as in `TextCall.function`: their names stand in the SQL of this plan.
    notes
        For people: which rule did what, and why a call stays in place.
    reads_all
        Whether all rows of the stages are known to be read, however few of the query's own are.

    Parameters written ``?`` stand as ``$1``, ``$2``... in a plan with stages; no SQL need hold all of them.
    """

    stages: tuple[Stage, ...]
    final_sql: str
    in_place: tuple[str, ...]
    notes: tuple[str, ...] = ()
    reads_all: bool = False

    def as_text(self) -> str:
        """The plan for people and for tests."""
        lines: list[str] = []
        for stage in self.stages:
            lines += [f"{stage.name}:", f"  {stage.input_sql}"]
            for call in stage.calls:
                where = f" where {call.mask}" if call.mask else ""
                made = f"{call.function}({', '.join(call.arguments)})"
                lines.append(f"  {call.result} = {f'TRY({made})' if call.try_ else made}{where}")
            lines.append(f"  carried: {', '.join(stage.carried) or 'nothing'}")
        lines.append(self.final_sql)
        if self.in_place:
            lines.append(f"in place: {', '.join(self.in_place)}")
        return "\n".join(lines)
