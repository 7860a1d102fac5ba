"""From a text to its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.ctes import drop, materialize, taken_along, with_taken
from lancegpu_sql.sql.blocks.cut import cut
from lancegpu_sql.sql.blocks.inlined import inlined
from lancegpu_sql.sql.blocks.kinds import is_marker, is_star, markers_in, named, own_nodes
from lancegpu_sql.sql.blocks.marked import Marked, NotPlanned, mark, numbered
from lancegpu_sql.sql.blocks.occurrences import Occurrence, occurrences, why_in_place
from lancegpu_sql.sql.blocks.places import check_place, is_read
from lancegpu_sql.sql.blocks.readings import same_reading
from lancegpu_sql.sql.blocks.resolve import resolve
from lancegpu_sql.sql.blocks.rowless import has_rowless, write_out_rowless
from lancegpu_sql.sql.blocks.scopes import AsWritten, inner_first
from lancegpu_sql.sql.blocks.sources import Sources, on_calls
from lancegpu_sql.sql.blocks.starred import write_out_stars
from lancegpu_sql.sql.blocks.wanted import Names, Wanted
from lancegpu_sql.sql.blocks.whole import reads_all
from lancegpu_sql.sql.functions_in_text import Signature, TextCall, calls_in, renamed
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.rules import (
    RULES,
    Below,
    Computed,
    join_keys,
    join_sides,
    push_filters,
    stored_below,
    stored_columns,
)
from lancegpu_sql.sql.stages import Describe, QueryPlan, ReadTree, Stage, StoredColumn
from lancegpu_sql.sql.tokens import tokens_of

# Planning takes about half a millisecond for each: the lists of a long IN are DuckDB's affair.
_MOST_TOKENS = 5_000
_UNREADABLE = (exp.PositionalColumn, exp.Pivot)


def plan_query(
    text: str,
    known: Mapping[str, Signature],
    describe: Describe,
    computed: Mapping[str, Sequence[StoredColumn]] | None = None,
    read_tree: ReadTree | None = None,
) -> QueryPlan:
    """Plan one query.

    Parameters
    ----------
    text
        A SELECT, or what DuckDB reads as one.
    known
        The Functions by folded names.
    describe
        Asked for the columns of the query and of parts of it.
    computed
        The computed columns of each table, by the table's name.
    read_tree
        Asked how DuckDB reads the query; None to trust sqlglot.

    Returns
    -------
    QueryPlan
        One without stages where every call is made in place.

    Raises
    ------
    InvalidQuery
        A call is wrong, or DuckDB refuses the query.
    """
    calls = calls_in(text, known)
    if not calls:
        return QueryPlan((), text, ())
    columns = describe(text)
    try:
        if len(tokens_of(text)) > _MOST_TOKENS:
            raise NotPlanned("the query is too long to be planned in a short time")
        if any(call.is_method for call in calls):
            raise NotPlanned("it is called on its first argument, after a dot")
        marked = mark(text, calls, known)
        if read_tree is not None:
            _check_reading(marked, text, calls, read_tree)
        return _Planner(marked, text, describe, columns, computed or {}).plan()
    except NotPlanned as reason:
        why = str(reason)
    except (SqlglotError, RecursionError):
        why = "this SQL is understood by DuckDB alone"
    functions = tuple(sorted({call.function for call in calls}))
    return QueryPlan((), text, functions, (f"in place: {', '.join(functions)}, since {why}",))


class _Planner:
    def __init__(
        self, marked: Marked, text: str, describe: Describe, columns: list[tuple[str, str]], computed: Computed
    ) -> None:
        self._marked, self._describe, self._columns = marked, describe, columns
        self._tree: exp.Query = marked.tree
        if self._tree.find(*_UNREADABLE) is not None:
            raise NotPlanned("it has PIVOT or a column by its position")
        self._names = Names(text)
        self._stages: list[tuple[Stage, exp.Query]] = []
        self._notes: list[str] = []
        self._prepare(computed)
        self._written = AsWritten(marked, describe)

    def plan(self) -> QueryPlan:
        selects = [select for select in inner_first(self._tree) if _has_calls(select)]
        for number, select in enumerate(selects, 1):
            try:
                self._plan_block(select, number)
            except NotPlanned as reason:
                if any(map(is_marker, own_nodes(select))):
                    self._notes.append(f"in place: {self._functions_of(select)}, since {reason}")
        if not self._stages and not self._reads_stored:
            raise NotPlanned("; ".join(note.partition("since ")[2] for note in self._notes) or "no row is read for it")
        self._keep_names()
        self._check()
        names = {stage.name for stage, _ in self._stages}
        whole = reads_all(self._tree, [query for _, query in self._stages])
        for query in (*(query for _, query in self._stages), self._tree):
            materialize(query, names)
        stages = tuple(replace(stage, input_sql=self._marked.sql(query)) for stage, query in self._stages)
        left = [marker for query in (*(query for _, query in self._stages), self._tree) for marker in markers_in(query)]
        functions = tuple(sorted({self._marked.function(marker) for marker in left}))
        return QueryPlan(stages, self._marked.sql(self._tree), functions, tuple(self._notes), whole)

    def _prepare(self, computed: Computed) -> None:
        """Read computed columns instead of calling, and take calls out of the conditions of joins."""
        self._written = written = AsWritten(self._marked, self._describe)
        self._reads_stored = False
        for select in inner_first(self._tree):
            if any(is_star(item) and markers_in(item) for item in select.expressions):
                with suppress(NotPlanned):
                    write_out_stars(select, written)
        rowless = [select for select in inner_first(self._tree) if select.args.get("from_") and has_rowless(select)]
        for select in rowless:
            with suppress(NotPlanned):
                self._write_out_rowless(select)
        if rowless:
            self._written = written = AsWritten(self._marked, self._describe)
        for select in inner_first(self._tree) if any(computed.values()) else ():
            if any(map(is_marker, own_nodes(select))) and select.args.get("from_"):
                try:
                    self._read_stored(select, computed)
                except NotPlanned:
                    continue
        for select in reversed(inner_first(self._tree)):
            if select.args.get("from_") and select.args.get("where"):
                try:
                    if push_filters(
                        select, Sources(select, written), written, self._tree, self._marked.is_deterministic
                    ):
                        self._note("push_filters: conditions before the calls of a query in FROM")
                except NotPlanned:
                    continue
        for select in inner_first(self._tree):
            if select.args.get("from_") and select.args.get("where") and any(map(is_marker, own_nodes(select))):
                try:
                    if join_keys(select, Sources(select, written), self._marked, self._names, self._around(select)):
                        self._note("join_keys: calls of a condition that joins, before the join")
                except NotPlanned:
                    continue
        for select in inner_first(self._tree):
            if any(map(is_marker, (node for join in select.args.get("joins") or [] for node in on_calls(join)))):
                try:
                    if join_sides(select, Sources(select, written), self._marked, self._names):
                        self._note("join_sides: calls in ON before the join, or after it in WHERE")
                except NotPlanned:
                    continue

    def _around(self, select: exp.Select) -> tuple[exp.Select, Sources] | None:
        """The block for each of whose rows this one is run; None where it stands alone."""
        if self._written.columns(select) is not None or select.parent_select is None:
            return None
        outer = select.parent_select
        if self._written.columns(outer) is None or not outer.args.get("from_"):
            raise NotPlanned("it is run for each row of a query that is run for each row of another")
        return outer, Sources(outer, self._written)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _write_out_rowless(self, select: exp.Select) -> None:
        if self._can_be_named(select):
            write_out_rowless(select, Sources(select, self._written), self._marked.is_deterministic)

    def _can_be_named(self, select: exp.Select) -> bool:
        """Name the items of a block, whose names would change with what stands in them."""
        if self._written.columns(select) is not None:
            self._name_items(select)
            return True
        return all(isinstance(item, (exp.Alias, exp.Column)) for item in select.expressions)

    def _read_stored(self, select: exp.Select, computed: Computed) -> None:
        if not self._can_be_named(select):
            return

        def below(source: exp.Expr, function: str, inputs: tuple[str, ...]) -> Below | None:
            return stored_below(source, function, inputs, self._tree, self._written, computed)

        sources = Sources(select, self._written)
        notes = stored_columns(select, sources, self._marked, computed, self._names, below)
        self._reads_stored = self._reads_stored or any(note.startswith("stored_columns") for note in notes)
        self._notes += dict.fromkeys(notes)

    # -- one block ------------------------------------------------------------------------------------------------

    def _plan_block(self, select: exp.Select, number: int) -> None:
        if not select.args.get("from_"):
            raise NotPlanned("it reads no rows")
        check_place(select, self._written, self._tree)
        stages = {stage.name for stage, _ in self._stages}
        block = Block(select, number, self._marked, stages, lambda query: self._written.stands_alone(select, query))
        item_names = self._item_names(select)
        plain = not any(map(is_star, block.items))
        unread = {
            index for index, (name, *_) in enumerate(item_names) if plain and not is_read(select, name, self._tree)
        }
        resolve(block, self._written)
        while True:
            ready = tuple(
                occurrence
                for occurrence in _ready(occurrences(block))
                if occurrence.clause != "expressions" or occurrence.item not in unread
            )
            wanted = next(filter(None, (rule(block, ready) for rule in RULES)), None)
            if wanted is None:
                break
            self._cut(block, wanted, item_names)
            item_names = [[item.alias] for item in block.items]
        for call, reason in why_in_place(block, unread):
            self._notes.append(f"in place: {self._marked.function(call)}, since {reason}")

    def _cut(self, block: Block, wanted: Wanted, item_names: list[list[str]]) -> None:
        stage, inner, rest = cut(block, wanted, self._names, item_names)
        needed, only_here = taken_along(inner, block.select, self._tree, block.stages)
        self._stages.append((stage, with_taken(inner, needed)))
        drop(only_here)
        with_ = block.select.args.get("with_")
        if with_ is not None:
            rest.set("with_", with_.pop())
        if block.select is self._tree:
            self._tree = rest
        else:
            block.select.replace(rest)
        block.select = rest
        block.stages.add(stage.name)
        functions = ", ".join(dict.fromkeys(call.function for call in stage.calls))
        self._notes.append(f"{stage.name}: {f'{functions} by ' if functions else ''}{wanted.rule}")

    def _item_names(self, select: exp.Select) -> list[list[str]]:
        """The names of the columns that each item stands for, as DuckDB gives them for the text as written."""
        names = self._written.columns(select)
        if self._is_first(select) and names is not None and len(names) == len(self._columns):
            names = [name for name, _ in self._columns]
        items: list[list[str]] = []
        for item in select.expressions:
            width = 1
            if is_star(item):
                if markers_in(item):
                    raise NotPlanned("it stands in an expression for several columns")
                width = len(self._written.item_columns(select, item) or ())
            items.append(list(names or ())[:width])
            names = list(names or ())[width:]
        if names or not all(items):
            raise NotPlanned("its columns cannot be told apart")
        return items

    def _keep_names(self) -> None:
        """Give the columns of blocks that stay whole the names that they have, where a part of them is cut."""
        stages = {stage.name for stage, _ in self._stages}
        for select in list(self._tree.find_all(exp.Select)):
            first = self._is_first(select)
            changed = any(table.name in stages for item in select.expressions for table in item.find_all(exp.Table))
            if not self._written.knows(select) or not (first or changed):
                continue
            try:
                self._name_items(select)
            except NotPlanned:
                continue  # should a name have changed, the plan is not used

    def _name_items(self, select: exp.Select) -> None:
        for item, names in zip(list(select.expressions), self._item_names(select), strict=True):
            if not is_star(item) and not isinstance(item, (exp.Alias, exp.Column)):
                item.replace(named(item.copy(), names[0], quoted=True))

    def _is_first(self, select: exp.Select) -> bool:
        """Whether a block names the columns of the whole query."""
        node: exp.Expr | None = self._tree
        while isinstance(node, (exp.SetOperation, exp.Subquery)):
            node = node.this
        return node is select

    def _functions_of(self, node: exp.Expr) -> str:
        found = (marker for marker in map(_as_marker, own_nodes(node)) if marker is not None)
        return ", ".join(sorted({self._marked.function(marker) for marker in found}))

    def _check(self) -> None:
        """Have DuckDB tell that the plan gives columns of the same types and names."""
        whole = inlined(self._tree, self._stages, self._marked)
        try:
            found = self._describe(self._marked.sql(whole))
        except LanceGpuError as exc:
            raise NotPlanned(f"DuckDB refuses the plan ({exc.message.strip().splitlines()[0]})") from exc
        if found != self._columns:
            raise NotPlanned("its plan would give other columns")


def _check_reading(marked: Marked, text: str, calls: Sequence[TextCall], read_tree: ReadTree) -> None:
    """Have DuckDB tell that sqlglot has understood the query."""
    plain = numbered(renamed(text, calls, lambda call: quote(marked.signature(call.function).name)))
    one, other = read_tree(plain), read_tree(marked.sql(marked.tree, with_values=False))
    if one is None or other is None or not same_reading(one, other):
        raise NotPlanned("this SQL is understood by DuckDB alone")


def _ready(found: Sequence[Occurrence]) -> list[Occurrence]:
    """The calls that depend on no other call that a stage can make."""
    calls = {id(occurrence.call) for occurrence in found}
    names = {str(occurrence.call.this) for occurrence in found}
    ready = []
    for occurrence in found:
        inside = [marker for part in occurrence.call.expressions for marker in markers_in(part)]
        before = [marker for part in occurrence.conditions for marker in markers_in(part)]
        if not any(id(marker) in calls for marker in inside) and not any(
            str(marker.this) in names for marker in before
        ):
            ready.append(occurrence)
    # The others may give what UNNEST makes rows of, and all UNNESTs of a block make them at once.
    return [occurrence for occurrence in ready if not occurrence.expands] or ready


def _has_calls(select: exp.Select) -> bool:
    """Whether a block has calls, or a subquery with calls in its WHERE."""
    where = select.args.get("where")
    return any(map(is_marker, own_nodes(select))) or (where is not None and bool(markers_in(where)))


def _as_marker(node: exp.Expr) -> exp.Anonymous | None:
    return node if isinstance(node, exp.Anonymous) and is_marker(node) else None
