"""The queries that say what UPDATE, DELETE and MERGE do to which rows. Pure: nothing is run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.statements.model import Delete, Merge, MergeAction, Update
from lancegpu_sql.sql.statements.scanner import Kind, words_of

ROWS = "lancegpu rows"
"""The name of the table whose rows are changed, which the queries read with `ROW_COLUMNS` beside its own."""
ROW_COLUMNS = ("_rowid", "_rowaddr")
CHANGE = "lancegpu change"
"""The column of `merge_query` that holds a struct of ``action`` (its number in the statement) and values; null: nothing."""
FOUND = "lancegpu found"


@dataclass(frozen=True)
class Target:
    """The table that a statement changes.

    Attributes
    ----------
    name
        By which the statement's expressions know it.
    types
        DuckDB's type of each column that may be written, in their order; None where a value is taken as it is.
    """

    name: str
    types: Mapping[str, str | None]

    def cast(self, column: str, expression: str | None) -> str:
        """An expression as a value of a column; without one, null."""
        kind = self.types[column]
        written = "NULL" if expression is None else f"(\n{expression}\n)"
        return written if kind is None else f"CAST({written} AS {kind})"

    @property
    def source(self) -> str:
        """What stands behind FROM."""
        return f"{quote(ROWS)} AS {quote(self.name)}"

    def column(self, name: str) -> str:
        """A column of it as an expression."""
        return f"{quote(self.name)}.{quote(name)}"


def numbered(text: str) -> str:
    """A statement in which each ``?`` is ``$1``, ``$2``, … in their order, so that its parts can be put in another one."""
    found = [word for word in words_of(text) if word.kind is Kind.PARAMETER and word.value[0] == "?"]
    for number, word in reversed(list(enumerate(found, start=1))):
        text = f"{text[: word.start]}${word.value[1:] or number}{text[word.end :]}"
    return text


def parameters_in(text: str) -> tuple[str, ...]:
    """The parameters of a text, as written, each once."""
    return tuple(dict.fromkeys(word.value for word in words_of(text) if word.kind is Kind.PARAMETER))


def parts_of(statement: Update | Delete | Merge) -> list[str]:
    """The pieces of a statement that stand in its query as they were written."""
    found: list[str | None] = [statement.with_list]
    if isinstance(statement, Merge):
        found += [statement.source, statement.condition]
        for action in statement.actions:
            found += [action.condition, action.error, *(each.expression for each in action.assignments)]
            found += action.values or ()
    else:
        found += [statement.sources, statement.where]
        if isinstance(statement, Update):
            found += [each.expression for each in statement.assignments]
    return [part for part in found if part]


def update_query(statement: Update, target: Target) -> str:
    """A query of `ROW_COLUMNS`, then a value for each assignment in its order."""
    # Aliases that no expression can mean: DuckDB would take a column's own name for the value beside it.
    values = [
        f"{target.cast(each.column, each.expression)} AS {quote(f'lancegpu value {at}')}"
        for at, each in enumerate(statement.assignments)
    ]
    # Of several rows of other tables that match one, any may be taken, but one only.
    once = f"DISTINCT ON ({target.column(ROW_COLUMNS[1])}) " if statement.sources is not None else ""
    return _select(statement, target, once, values)


def delete_query(statement: Delete, target: Target) -> str:
    """A query of `ROW_COLUMNS`, a row perhaps more than once."""
    return _select(statement, target, "", [])


def _select(statement: Update | Delete, target: Target, once: str, values: Sequence[str]) -> str:
    columns = ",\n".join([*map(target.column, ROW_COLUMNS), *values])
    others = "" if statement.sources is None else f", {statement.sources}"
    condition = "" if statement.where is None else f"\nWHERE (\n{statement.where}\n)"
    return f"{statement.with_list}\nSELECT {once}{columns}\nFROM {target.source}{others}{condition}".lstrip()


def source_column(statement: Merge, name: str) -> str:
    """A column of a MERGE's source as an expression."""
    return f"{quote(statement.source_name)}.{quote(name)}"


def source_query(statement: Merge) -> str:
    """A query whose columns are those of a MERGE's source; no row of it is of interest."""
    # It is given all of the statement's parameters, and DuckDB wants each to stand in the text.
    unused = " ".join(f"AND {each} IS NULL" for each in parameters_in(statement.text))
    return f"{statement.with_list}\nSELECT * FROM {_source(statement)} WHERE false {unused}".lstrip()


def merge_query(statement: Merge, target: Target, actions: Sequence[MergeAction], written: Sequence[str]) -> str:
    """A query of `ROW_COLUMNS` and `CHANGE`, one row for each row of either side that an action may be about.

    Parameters
    ----------
    actions
        The statement's, with assignments where it says values by position or all columns.
    written
        The columns that any of them writes: the values ``v0``, ``v1``, … in the struct.
    """
    name = quote(statement.source_name)
    row, found = target.column(ROW_COLUMNS[1]), f"{name}.{quote(FOUND)}"
    conditions = {"matched": f"{row} IS NOT NULL AND {found}", "new": f"{row} IS NULL", "missing": f"{found} IS NULL"}
    cases = []
    for number, action in enumerate(actions):
        condition = conditions[action.when]
        if action.condition is not None:
            condition += f" AND (\n{action.condition}\n)"
        cases.append(f"WHEN {condition} THEN {_outcome(number, action, target, written)}")
    kinds = {action.when for action in actions}
    join = {(False, False): "INNER", (True, False): "RIGHT", (False, True): "LEFT", (True, True): "FULL"}
    source = f"(SELECT *, TRUE AS {quote(FOUND)} FROM {_source(statement)}) AS {name}"  # noqa: S608
    rows = ", ".join(map(target.column, ROW_COLUMNS))
    return (
        f"{statement.with_list}\nSELECT {rows}, CASE\n{chr(10).join(cases)}\nEND AS {quote(CHANGE)}\nFROM {target.source} "
        f"{join['new' in kinds, 'missing' in kinds]} JOIN {source}\nON {_condition(statement, target)}"
    ).lstrip()


def _outcome(number: int, action: MergeAction, target: Target, written: Sequence[str]) -> str:
    if action.action == "nothing":
        return "NULL"
    if action.action == "error":
        told = f"CAST(({action.error}) AS VARCHAR)" if action.error else "'MERGE met a row that it refuses'"
        return f"error({told})"
    given = {each.column: each.expression for each in action.assignments}
    values = [f"'action': {number}::INTEGER"]
    for at, column in enumerate(written):
        kept = target.column(column) if action.action == "update" and column not in given else given.get(column)
        values.append(f"'v{at}': {target.cast(column, kept)}")
    return f"{{{', '.join(values)}}}"


def _source(statement: Merge) -> str:
    columns = f"({', '.join(map(quote, statement.source_columns))})" if statement.source_columns else ""
    return f"{statement.source} AS {quote(statement.source_name)}{columns}"


def _condition(statement: Merge, target: Target) -> str:
    if statement.condition is not None:
        return f"(\n{statement.condition}\n)"
    return " AND ".join(
        f"{target.column(each)} = {quote(statement.source_name)}.{quote(each)}" for each in statement.using
    )
