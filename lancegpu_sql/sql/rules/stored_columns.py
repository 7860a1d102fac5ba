"""Calls whose value stands in a computed column of the table whose columns they read: the column is read instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_aggregate, is_marker, own_nodes, same_key
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.scopes import visible_ctes
from lancegpu_sql.sql.blocks.sources import Sources
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import StoredColumn

Computed = Mapping[str, Sequence[StoredColumn]]


def stored_columns(select: exp.Select, sources: Sources, marked: Marked, computed: Computed) -> list[str]:
    """Replace what stands in a fresh column of one block's tables; what was done, and what was not, for people."""
    notes: list[str] = []
    hidden = {fold(cte.alias) for cte in visible_ctes(select)}
    grouped = bool(select.args.get("group") or select.args.get("having")) or any(
        is_aggregate(node) for item in select.expressions for node in own_nodes(item)
    )
    keys = _grouped_by(select)
    kept = {column.function for columns in computed.values() for column in columns}
    calls = [node for node in reversed(_own_calls(select)) if marked.function(node) in kept]
    by_alias = {alias: _columns_of(node, computed, hidden) for alias, node in sources.nodes.items()}
    for call in filter(marked.is_deterministic, calls):  # inner ones first
        owners = {sources.owner(argument) for argument in call.expressions}
        alias = owners.pop() if len(owners) == 1 else None
        if alias is None or not call.expressions:
            continue
        columns = by_alias[alias]
        inputs = tuple(fold(argument.name) for argument in call.expressions)
        of_groups = grouped and not _of_rows(select, call) and same_key(call) not in keys
        notes += _use(call, inputs, alias, columns, sources, marked, of_groups=of_groups)
    return notes


def _use(
    call: exp.Anonymous,
    inputs: tuple[str, ...],
    alias: str,
    columns: Sequence[StoredColumn],
    sources: Sources,
    marked: Marked,
    *,
    of_groups: bool,
) -> list[str]:
    function = marked.function(call)
    stored = next((one for one in columns if one.function == function and tuple(map(fold, one.inputs)) == inputs), None)
    if stored is None:
        return []
    digest = marked.signature(function).version_digest
    if not digest or stored.version_digest != digest:
        return [f"not read from {stored.column}: it was computed with another version of {function}"]
    if sources.may_be_null(alias):
        return [
            f"not read from {stored.column}: a join may have no row of its table, and {function} is called then too"
        ]
    if of_groups:
        return [f"not read from {stored.column}: its row is one of a group"]
    if stored.fully_fresh:
        call.replace(_column(stored.column, alias))
        return [f"stored_columns: {function} is read from {stored.column}"]
    if stored.proved is None or stored.proof is None:
        return [f"not read from {stored.column}: some of its rows are out of date"]
    of_relation = [one for one in columns if one.proved == stored.proved]
    more = [one.proof for one in of_relation if one.proof is not None] + [
        one.column for one in of_relation if one.added
    ]
    if not sources.read_instead(alias, stored.proved, more):
        return [
            f"not read from {stored.column}: some of its rows are out of date, and all columns of its table are taken"
        ]
    branch = exp.If(this=_column(stored.proof, alias), true=_column(stored.column, alias))
    call.replace(exp.Case(ifs=[branch], default=call.copy()))
    return [f"stored_columns: {function} is read from {stored.column} in the rows that are not out of date"]


def _column(name: str, alias: str) -> exp.Column:
    return exp.column(name, table=exp.to_identifier(alias, quoted=True), quoted=True)


def _own_calls(select: exp.Select) -> list[exp.Anonymous]:
    found = []
    for key, value in select.args.items():
        for root in value if isinstance(value, list) else [value]:
            if isinstance(root, exp.Expr) and key not in {"with_", "from_"}:
                found += [node for node in own_nodes(root) if isinstance(node, exp.Anonymous) and is_marker(node)]
    return found


def _columns_of(node: exp.Expr, computed: Computed, hidden: set[str]) -> Sequence[StoredColumn]:
    """The computed columns of a source, if it is a table under its own column names."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or fold(node.name) in hidden:
        return ()
    alias = node.args.get("alias")
    if node.args.get("when") or (alias is not None and alias.args.get("columns")):
        return ()
    exact = computed.get(node.name)
    alike = [columns for name, columns in computed.items() if fold(name) == fold(node.name)]
    return exact if exact is not None else alike[0] if len(alike) == 1 else ()


def _grouped_by(select: exp.Select) -> set[str]:
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
    return {same_key(node) for root in roots for node in own_nodes(root) if is_marker(node)}


def _of_rows(select: exp.Select, call: exp.Anonymous) -> bool:
    """Whether a call of a grouped block is made for rows: in WHERE, in ON or in an aggregate."""
    node: exp.Expr = call
    while node.parent is not None and node.parent is not select:
        if is_aggregate(node.parent):
            return True
        node = node.parent
    return node.arg_key in {"where", "joins"}
