"""Random queries over the small tables of `planned`, with Functions in every clause."""

from __future__ import annotations

from hypothesis import strategies as st

_COLUMNS = {"t": ("id", "a", "b"), "u": ("id", "a", "c"), "empty_table": ("id", "a", "b")}
_NUMBER_CALLS = (
    "f({})", "g({})", "nul({})", "nd({})", "h({}, {})", "h(y := {}, x := {})", "f(g({}))", "length(t1({}))", "rec({}).lo", "li({})[2]",
    "TRY(picky({}))", "(SELECT f({}))", "len([f(e) FOR e IN li({})])",
)  # fmt: skip


@st.composite
def numbers(draw: st.DrawFn, columns: tuple[str, ...], depth: int = 2) -> str:
    """An expression over columns that is a number."""
    leaf = st.sampled_from([*columns, *columns, "1", "3"])
    if depth == 0:
        return draw(leaf)
    inner = numbers(columns, depth - 1)
    kind = draw(st.integers(0, 9))
    if kind < 4:
        template = draw(st.sampled_from(_NUMBER_CALLS))
        return template.format(*(draw(inner) for _ in range(template.count("{}"))))
    if kind < 6:
        return draw(leaf)
    if kind == 6:
        return f"({draw(inner)} {draw(st.sampled_from('+-*'))} {draw(inner)})"
    if kind == 7:
        return f"coalesce({draw(inner)}, {draw(inner)})"
    condition = draw(conditions(columns, depth - 1))
    if kind == 8:
        return f"CASE WHEN {condition} THEN {draw(inner)} ELSE {draw(inner)} END"
    column = draw(st.sampled_from(columns))
    return f"CASE WHEN {column} <> 0 AND {condition} THEN picky({column}) WHEN {column} = 0 THEN {draw(inner)} END"


@st.composite
def conditions(draw: st.DrawFn, columns: tuple[str, ...], depth: int = 2) -> str:
    """An expression over columns that is true, false or null."""
    number = numbers(columns, max(depth - 1, 0))
    kind = draw(st.integers(0, 8 if depth else 2))
    if kind <= 2:
        return f"{draw(number)} {draw(st.sampled_from(['<', '>', '=', '<>', 'IS DISTINCT FROM']))} {draw(number)}"
    if kind == 3:
        return f"p({draw(number)})"
    if kind == 4:
        return f"{draw(number)} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 5:
        return f"{draw(number)} IN (1, {draw(number)}, 4)"
    if kind == 6:
        return f"NOT ({draw(conditions(columns, depth - 1))})"
    word = "AND" if kind == 7 else "OR"
    return f"({draw(conditions(columns, depth - 1))} {word} {draw(conditions(columns, depth - 1))})"


@st.composite
def sources(draw: st.DrawFn, depth: int) -> tuple[str, tuple[str, ...]]:
    """A FROM, and the columns that may be named."""
    name = draw(st.sampled_from(["t", "t", "u", "empty_table"]))
    first, columns = f"{name} AS x", tuple(f"x.{column}" for column in _COLUMNS[name])
    kind = draw(st.integers(-1, 6 if depth else 3))
    if kind == -1:
        on = f"x.id = z.id AND {draw(conditions((*columns, 'z.id', 'z.c'), 1))}"
        return f"{first} {draw(st.sampled_from(['SEMI', 'ANTI']))} JOIN u AS z ON {on}", columns
    if kind <= 1:
        return first, columns
    if kind <= 3:
        other = draw(st.sampled_from(["t", "u"]))
        both = (*columns, *(f"y.{column}" for column in _COLUMNS[other]))
        join = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
        on = "x.id = y.id" if draw(st.booleans()) else f"x.id = y.id AND {draw(conditions(both, 1))}"
        if draw(st.integers(0, 4)) == 0:
            on = f"f(x.a) = {draw(st.sampled_from(['y.id', 'g(y.a)']))}"
        return f"{first} {join} {other} AS y ON {on}", both
    if kind == 4:
        return f"{first}, LATERAL (SELECT {draw(numbers(columns, 1))} AS n)", (*columns, "n")
    inner, width = draw(selects(depth - 1))
    named = tuple(f"c{number}" for number in range(width))
    if kind == 5:
        return f"({inner}) AS x({', '.join(named)})", tuple(f"x.{name}" for name in named)
    return f"(SELECT c0, f(c0) AS c1, c0 AS c2 FROM ({inner}) AS q({', '.join(named)})) AS x", ("x.c0", "x.c1", "c2")


@st.composite
def selects(draw: st.DrawFn, depth: int = 1) -> tuple[str, int]:
    """A SELECT, and how many columns it has."""
    source, columns = draw(sources(depth))
    where = draw(st.lists(conditions(columns), max_size=2))
    if depth and draw(st.integers(0, 3)) == 0:
        where.append(draw(subqueries(columns)))
    filtered = f" WHERE {' AND '.join(where)}" if where else ""
    body = draw(st.sampled_from([_plain, _plain, _grouped, _windowed, _unnested]))
    items, end = body(draw, columns)
    ordered = (
        " ORDER BY ALL" + draw(st.sampled_from(["", " LIMIT 3", " LIMIT 2 OFFSET 1"])) if draw(st.booleans()) else ""
    )
    return f"SELECT {', '.join(items)} FROM {source}{filtered}{end}{ordered}", len(items)


@st.composite
def subqueries(draw: st.DrawFn, columns: tuple[str, ...]) -> str:
    """A condition with a query in it, which may read the outer row."""
    inner = tuple(f"z.{column}" for column in _COLUMNS["u"])
    both = (*inner, *columns) if draw(st.booleans()) else inner
    condition = draw(conditions(both, 1))
    return draw(
        st.sampled_from(
            [
                f"EXISTS (SELECT 1 FROM u AS z WHERE {condition})",
                f"{columns[0]} NOT IN (SELECT coalesce({draw(numbers(inner, 1))}, 0) FROM u AS z WHERE {condition})",
                f"{draw(numbers(columns, 1))} > (SELECT min({draw(numbers(inner, 1))}) FROM u AS z WHERE {condition})",
            ]
        )
    )


def _plain(draw: st.DrawFn, columns: tuple[str, ...]) -> tuple[list[str], str]:
    items = draw(st.lists(numbers(columns), min_size=1, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        items[0] = f"DISTINCT {items[0]}"
    return items, ""


def _grouped(draw: st.DrawFn, columns: tuple[str, ...]) -> tuple[list[str], str]:
    key = draw(numbers(columns, 1))
    aggregate = f"{draw(st.sampled_from(['min', 'max', 'count', 'count(DISTINCT', 'sum']))}"
    value = draw(numbers(columns, 1))
    closed = f"{aggregate} {value})" if aggregate.endswith("DISTINCT") else f"{aggregate}({value})"
    if draw(st.booleans()):
        closed += f" FILTER (WHERE {draw(conditions(columns, 1))})"
    items = [f"{key} AS k", f"nul({closed}) AS v", "count(*)"]
    inner = draw(st.sampled_from(["count(*)", "max(z.a)", f"sum({draw(numbers(('z.a', 'z.c'), 1))})"]))
    if draw(st.booleans()):
        items.append(f"(SELECT {inner} FROM u AS z) AS s")
    sets = [f"ROLLUP ({key})", f"CUBE ({key}, (SELECT {inner} FROM u AS z))", f"GROUPING SETS (({key}), (k), ())"]
    written = draw(st.sampled_from([key, "1", "k", "ALL", *sets]))
    if written.isdigit() is False and key in {"1", "3"}:
        written = "1"
    having = draw(st.sampled_from(["", " HAVING count(*) > 1", " HAVING p(count(*)) AND max(1) = 1"]))
    return items, f" GROUP BY {written}{having}"


def _unnested(draw: st.DrawFn, columns: tuple[str, ...]) -> tuple[list[str], str]:
    """Several rows of one: all UNNESTs of a block make them at once."""
    one, other = (f"unnest(li({draw(numbers(columns, 1))}))" for _ in range(2))
    items = [f"{one} AS e", draw(st.sampled_from(["f(e)", f"f({other})", other])), draw(numbers(columns))]
    return items, ""


def _windowed(draw: st.DrawFn, columns: tuple[str, ...]) -> tuple[list[str], str]:
    partition, value = draw(numbers(columns, 1)), draw(numbers(columns, 1))
    window = f"sum({value}) OVER (PARTITION BY {partition})"
    items = [
        draw(numbers(columns, 1)),
        f"{window} AS w",
        f"f(count(*) OVER (PARTITION BY {draw(numbers(columns, 1))}))",
    ]
    qualify = draw(st.sampled_from(["", f" QUALIFY {window} > 2", " QUALIFY p(count(*) OVER ()) OR f(w) > 3"]))
    return items, qualify


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A whole query."""
    text, width = draw(selects(depth=2))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return f"WITH q AS ({text}) SELECT *, nul(1) FROM q" if width == 1 else f"WITH q AS ({text}) FROM q"
    if kind == 1:
        other = f"SELECT {', '.join(['f(id)'] * width)} FROM u"
        return f"({text}) {draw(st.sampled_from(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT']))} {other}"
    return text
