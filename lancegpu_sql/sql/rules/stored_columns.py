"""Calls whose value stands in a computed column of the table whose columns they read: the column is read instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_aggregate, is_marker, own_nodes, same_key
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.scopes import visible_ctes
from lancegpu_sql.sql.blocks.sources import Sources
from lancegpu_sql.sql.blocks.wanted import Names
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.rules.stored_below import Below, Computed, columns_of, holder
from lancegpu_sql.sql.stages import StoredColumn

FindBelow = Callable[[exp.Expr, str, tuple[str, ...]], Below | None]


def stored_columns(
    select: exp.Select, sources: Sources, marked: Marked, computed: Computed, names: Names, find_below: FindBelow
) -> list[str]:
    """Replace what stands in a fresh column of one block's tables; what was done, and what was not, for people.

    Parameters
    ----------
    find_below
        Asked for what a derived table or CTE hands on, by its node, a Function and the columns that are its arguments.
    """
    notes: list[str] = []
    hidden = {fold(cte.alias) for cte in visible_ctes(select)}
    grouped = bool(select.args.get("group") or select.args.get("having")) or any(
        is_aggregate(node) for item in select.expressions for node in own_nodes(item)
    )
    keys = _grouped_by(select, sources, marked)
    kept = {column.function for columns in computed.values() for column in columns}
    calls = [node for node in reversed(_own_calls(select)) if marked.function(node) in kept]
    given: dict[tuple[str, str, tuple[str, ...]], tuple[str, str | None] | None] = {}
    by_alias = {alias: columns_of(node, computed, hidden) for alias, node in sources.nodes.items()}
    for call in filter(marked.is_deterministic, calls):  # inner ones first
        owners = {sources.owner(argument) for argument in call.expressions}
        alias = owners.pop() if len(owners) == 1 else None
        if alias is None or not call.expressions:
            continue
        inputs = tuple(fold(argument.name) for argument in call.expressions)
        function = marked.function(call)
        stored = holder(by_alias[alias], function, inputs)
        below = find_below(sources.nodes[alias], function, inputs) if stored is None else None
        if below is not None:
            stored = below.stored
        if stored is None:
            continue
        of_groups = grouped and not _of_rows(select, call) and _key(call, sources, marked) not in keys
        reason = _why_not(stored, function, alias, sources, marked, of_groups=of_groups)
        if reason is None and below is not None:
            place = (alias, function, inputs)
            if place not in given:
                given[place] = below.in_source(alias, select, names)
            reason = _use_given(call, alias, given[place])
        elif reason is None:
            reason = _use(call, stored, alias, by_alias[alias], sources)
        read = f"stored_columns: {function} is read from {stored.column}"
        if reason is not None:
            read = f"not read from {stored.column}: {reason}"
        elif not stored.fully_fresh:
            read += " in the rows that are not out of date"
        notes.append(read)
    return notes


def _why_not(
    stored: StoredColumn, function: str, alias: str, sources: Sources, marked: Marked, *, of_groups: bool
) -> str | None:
    digest = marked.signature(function).version_digest
    if not digest or stored.version_digest != digest:
        return f"it was computed with another version of {function}"
    if sources.may_be_null(alias):
        return f"a join may have no row of its table, and {function} is called then too"
    if of_groups:
        return "its row is one of a group"
    if not stored.fully_fresh and (stored.proved is None or stored.proof is None):
        return "some of its rows are out of date"
    return None


def _use(
    call: exp.Anonymous, stored: StoredColumn, alias: str, columns: Sequence[StoredColumn], sources: Sources
) -> str | None:
    if stored.fully_fresh:
        _replace(call, alias, stored.column, None)
        return None
    assert stored.proved is not None
    of_relation = [one for one in columns if one.proved == stored.proved]
    more = [one.proof for one in of_relation if one.proof is not None] + [
        one.column for one in of_relation if one.added
    ]
    if not sources.read_instead(alias, stored.proved, more):
        return "some of its rows are out of date, and all columns of its table are taken"
    _replace(call, alias, stored.column, stored.proof)
    return None


def _use_given(call: exp.Anonymous, alias: str, given: tuple[str, str | None] | None) -> str | None:
    if given is None:
        return "a query in FROM stands between, whose columns are all taken, or which is read more than once"
    _replace(call, alias, *given)
    return None


def _replace(call: exp.Anonymous, alias: str, column: str, proof: str | None) -> None:
    if proof is None:
        call.replace(_column(column, alias))
        return
    branch = exp.If(this=_column(proof, alias), true=_column(column, alias))
    call.replace(exp.Case(ifs=[branch], default=call.copy()))


def _column(name: str, alias: str) -> exp.Column:
    return exp.column(name, table=exp.to_identifier(alias, quoted=True), quoted=True)


def _own_calls(select: exp.Select) -> list[exp.Anonymous]:
    found = []
    for key, value in select.args.items():
        for root in value if isinstance(value, list) else [value]:
            if isinstance(root, exp.Expr) and key not in {"with_", "from_"}:
                found += [node for node in own_nodes(root) if isinstance(node, exp.Anonymous) and is_marker(node)]
    return found


def _key(call: exp.Anonymous, sources: Sources, marked: Marked) -> tuple[str, ...]:
    """What two calls share that are the same one, each under a name of its own."""
    owners = map(sources.owner, call.expressions)
    given = [
        same_key(argument) if owner is None else f"{owner}.{fold(argument.name)}"
        for owner, argument in zip(owners, call.expressions, strict=True)
    ]
    return marked.function(call), *given


def _grouped_by(select: exp.Select, sources: Sources, marked: Marked) -> set[tuple[str, ...]]:
    """The keys of calls that GROUP BY makes, by themselves or as an item that it names."""
    group = select.args.get("group")
    if group is None:
        return set()
    roots: list[exp.Expr] = [group]
    for position, item in enumerate(select.expressions, 1):
        plain = not any(map(is_aggregate, own_nodes(item)))
        named = any(
            (isinstance(key, exp.Literal) and key.this == str(position))
            or (isinstance(key, exp.Column) and not key.table and item.alias and fold(key.name) == fold(item.alias))
            for key in group.walk()
        )
        roots += [item] if (group.args.get("all") and plain) or named else []
    calls = [node for root in roots for node in own_nodes(root) if isinstance(node, exp.Anonymous) and is_marker(node)]
    return {_key(call, sources, marked) for call in calls}


def _of_rows(select: exp.Select, call: exp.Anonymous) -> bool:
    """Whether a call of a grouped block is made for rows: in WHERE, in ON or in an aggregate."""
    node: exp.Expr = call
    while node.parent is not None and node.parent is not select:
        if is_aggregate(node.parent):
            return True
        node = node.parent
    return node.arg_key in {"where", "joins"}
