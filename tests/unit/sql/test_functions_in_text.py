"""Which Functions a text calls, and the text with other names for them."""

from __future__ import annotations

import re

import pytest

from lancegpu_sql.catalog.models import InitParameter
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.functions_in_text import Signature, calls_in, in_place

KNOWN = {
    "f": Signature("f", ("x",), deterministic=True),
    "g": Signature("g", ("x", "y"), deterministic=True),
    "nothing": Signature("nothing", (), deterministic=True),
    "made": Signature(
        "made",
        ("x",),
        deterministic=True,
        init_parameters=(InitParameter(name="by", required=True, type="int"), InitParameter(name="On", required=False)),
    ),
    "my.embed-2": Signature("my.Embed-2", ("text",), deterministic=True),
}
NAMES = {"f": "_f", "g": "_g", "nothing": "_n", "my.embed-2": "_e"}


def replaced(text: str) -> str:
    """The text with the other names, without the blanks that keep what follows in its column."""
    return without_blanks(in_place(text, calls_in(text, KNOWN), NAMES))


def without_blanks(text: str) -> str:
    return text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT f(x)", 'SELECT "_f"(x)'),
        ('SELECT F (x), "f"(y), f/* f(z) */(1)', 'SELECT "_f" (x), "_f"(y), "_f"/* f(z) */(1)'),
        ('SELECT "my.Embed-2"(t)', 'SELECT "_e"(t)'),
        ("SELECT nothing()", 'SELECT "_n"()'),
        ("f(x) > 1", '"_f"(x) > 1'),
        ("SELECT t.a.f(), (a).f().f(), 'a'.g(y := 1)", 'SELECT t.a."_f"(), (a)."_f"()."_f"(), \'a\'."_g"(1)'),
        ("SELECT a FROM t WHERE f(x) AND NOT f(y) OR z IN (f(1), f(2))", None),
        ("SELECT CASE WHEN f(x) THEN f(1) ELSE f(2) END", None),
        ("SELECT DISTINCT f(x), DISTINCT ON (a, b) f(y)", None),
        ("FROM t SELECT f(x), f(y)", None),
        ("SELECT a FROM t JOIN u ON f(t.x) = f(u.x), v ORDER BY f(a), f(b) LIMIT f(1) OFFSET f(2)", None),
        ("SELECT sum(f(x)) FILTER (f(y)) OVER (PARTITION BY f(z) ORDER BY f(w)) GROUP BY f(q) QUALIFY f(r)", None),
        ("SELECT a IS NOT DISTINCT FROM f(x), b IS DISTINCT FROM f(y), c", None),
        ("SELECT extract(year FROM f(x)), substring(f(x) FROM f(y) FOR f(z)), trim(BOTH f(x) FROM f(y))", None),
        ("SELECT t AT TIME ZONE f(x), a LIKE f(x) ESCAPE f(y), a SIMILAR TO f(z), a BETWEEN f(x) AND f(y)", None),
        (
            "SELECT [f(x) FOR x IN l IF f(x)], {'a': f(x)}, l[f(i)], x -> f(x), lambda x: f(x), f(x).a, f(x)[1], @f(x)",
            None,
        ),
        ("SELECT * FROM t, unnest(f(x)), (VALUES (f(1), f(2))) v(a, b), range(f(x)), LATERAL (SELECT f(x))", None),
        ("PIVOT t ON f(x) USING sum(f(y)) GROUP BY z", None),
        ("INSERT INTO t VALUES (f(1), f(2))", None),
        ("UPDATE t SET a = f(x), b = f(y) WHERE f(z) RETURNING f(q)", None),
        ("SELECT a: f(x)", None),
        ("WITH c AS (SELECT f(x)) SELECT f(y) FROM c UNION SELECT f(z)", None),
        ("CREATE MACRO m(x) AS f(x)", None),
        ("CREATE VIEW v AS SELECT f(x)", None),
        ("SELECT exists(FROM t WHERE f(x)), ARRAY(SELECT f(x) FROM t), a IN (SELECT f(x) FROM t, u)", None),
        ("SELECT CAST(f(x) AS INT), f(x)::INT, -f(x), 1 + f(x), NOT f(x)", None),
    ],
)
def test_calls_get_the_other_name(text: str, expected: str | None):
    if expected is None:
        expected = text.replace("f(", '"_f"(')
    assert replaced(text) == without_blanks(expected)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'f(x)', $$ f(x) $$, $a$ f(x) $a$, e'f(\\'x)' -- f(x)\n/* f(x) /* nested */ f(x) */",
        'SELECT f, "f", t.f FROM t',
        "SELECT main.f(x), elsewhere.f(x), elsewhere.main.f(x)",
        "WITH f(a) AS (SELECT 1) FROM f",
        "WITH RECURSIVE f(a, b) AS NOT MATERIALIZED (SELECT 1, 2), g(a) USING KEY (a) AS (SELECT 1) FROM f, g",
        "FROM t AS f(a, b)",
        "FROM t f(a, b)",
        "FROM (SELECT 1) f(a), (SELECT 2) AS g(b) JOIN u g(b) ON true",
        "CREATE TABLE f (a INT)",
        "CREATE TABLE IF NOT EXISTS f(a INT)",
        "CREATE MACRO f(x) AS x + 1",
        "CREATE INDEX i ON f(a)",
        "INSERT INTO f(a, b, c) SELECT 1",
        "COPY f(a) FROM 'x.csv'",
        "SELECT CAST(a AS f(3)), a::f(3)",
        "PREPARE f(INT) AS SELECT 1",
        "SELECT $f, ff(x), _f(x), f1(x)",
    ],
)
def test_what_is_no_call_stays(text: str):
    assert calls_in(text, KNOWN) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT g(x := 1, y := 2)", 'SELECT "_g"(1, 2)'),
        ("SELECT g(y => 2, X => 1)", 'SELECT "_g"(1, 2)'),
        ("SELECT g(1, y := (2, 3))", 'SELECT "_g"(1, (2, 3))'),
        (
            "SELECT g(y := f(x := g(y := 1, x := 2)), x := a + f(b) -- one\n)",
            'SELECT "_g"(a + "_f"(b), "_f"("_g"(2, 1)))',
        ),
        ("SELECT g(f(1), g(f(2), 3)) + f(4)", 'SELECT "_g"("_f"(1), "_g"("_f"(2), 3)) + "_f"(4)'),
        ("SELECT g(*COLUMNS(*)), f(COLUMNS(*)), f(t.*)", 'SELECT "_g"(*COLUMNS(*)), "_f"(COLUMNS(*)), "_f"(t.*)'),
        ("SELECT f(x::MAP(INT, INT)), g([1, 2], {'a': 1, 'b': 2})", None),
        ("SELECT f('x := 1'), f((SELECT a, b FROM t ORDER BY c))", None),
    ],
)
def test_arguments_stand_in_the_order_of_the_parameters(text: str, expected: str | None):
    expected = expected or text.replace("f(", '"_f"(').replace("g(", '"_g"(')
    assert replaced(text) == without_blanks(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT g(x := 1, y => a), b", "SELECT _(     1,      a), b"),
        ("SELECT g(/* , */ 1, y /* ( */ := f(x := a)), b", "SELECT _(        1,              _(     a)), b"),
        ("SELECT (1).f() + t.a.g(y := 2), b", "SELECT (1)._() + t.a._(     2), b"),
        ("SELECT made(x, by := 2, on := [1]), b", "SELECT _   (x                    ), b"),
        ("SELECT f(x := -- a\n a), b", "SELECT _(         \n a), b"),
    ],
)
def test_what_follows_an_argument_with_a_name_stays_in_its_column(text: str, expected: str):
    calls = calls_in(text, KNOWN)
    assert in_place(text, calls, {call.function: "_" for call in calls}).replace('"', "") == expected


@pytest.mark.parametrize(
    ("text", "says", "line", "column"),
    [
        ("SELECT f()", "lacks 'x': write f(x)", 1, 8),
        ("SELECT\n  g(1)", "lacks 'y': write g(x, y)", 2, 3),
        ("SELECT f(1,\n 2)", "takes one argument, and this is one too many", 2, 2),
        ("SELECT nothing(1)", "takes no argument", 1, 16),
        ("SELECT f(z := 1)", "has no parameter 'z'", 1, 10),
        ("SELECT g(1, x := 2)", "is given 'x' twice", 1, 13),
        ("SELECT g(x := 1, x := 2)", "is given 'x' twice", 1, 18),
        ("SELECT g(y := 1, 2)", "without a name after one with a name", 1, 18),
        ("SELECT g(1, , 2)", "an empty argument", 1, 16),
        ("SELECT f(x :=)", "an empty argument", 1, 14),
        ("SELECT f(*)", "takes expressions", 1, 10),
        ("SELECT f(DISTINCT x)", "is no aggregate: DISTINCT", 1, 10),
        ("SELECT f(x ORDER BY y)", "is no aggregate: ORDER BY", 1, 12),
        ("SELECT f(x) FILTER (WHERE y)", "is no aggregate: FILTER", 1, 13),
        ("SELECT f(x) WITHIN GROUP (ORDER BY y)", "is no aggregate: WITHIN", 1, 13),
        ("SELECT f(x) OVER (ORDER BY y)", "is no window function: OVER", 1, 13),
        ("SELECT f(x) OVER w FROM t", "is no window function: OVER", 1, 13),
        ("FROM f(x)", "it is no table", 1, 6),
        ("SELECT * FROM t, f(x)", "it is no table", 1, 18),
        ("SELECT * FROM t JOIN f(x) AS u ON true", "it is no table", 1, 22),
        ("SELECT * FROM t, LATERAL f(t.x)", "it is no table", 1, 26),
        ("SELECT * FROM (f(x) JOIN t ON true)", "it is no table", 1, 16),
        ("SELECT * FROM v: f(x)", "it is no table", 1, 18),
        ("SELECT (SELECT a FROM f(x))", "it is no table", 1, 23),
        ("SELECT f(x", "is not closed", 1, 9),
    ],
)
def test_a_wrong_call_is_refused_with_its_place(text: str, says: str, line: int, column: int):
    with pytest.raises(InvalidQuery) as caught:
        calls_in(text, KNOWN)
    assert says in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_message_of_a_wrong_call_shows_the_line_and_a_caret():
    with pytest.raises(InvalidQuery, match=r"Line 2, column 5:\n\t1, f\(\)\n\t   \^"):
        calls_in("SELECT\n\t1, f()\nFROM t", KNOWN)


def test_a_call_says_where_it_stands():
    (call,) = calls_in("SELECT é, F (y := 1)".replace("y", "x"), KNOWN)
    assert (call.function, call.start, call.end, call.open, call.close) == ("f", 10, 11, 12, 19)
    assert call.arguments == ((18, 19),)
    assert not call.written_in_order


@pytest.mark.parametrize(
    ("text", "in_try", "alone"),
    [
        ("SELECT f(x)", False, False),
        ("SELECT TRY(f(x))", True, True),
        ("SELECT try( f(x) )", True, True),
        ("SELECT TRY(f(x) + 1)", True, False),
        ("SELECT TRY_CAST(f(x) AS INT)", False, False),
        ("SELECT TRY(1), f(x)", False, False),
    ],
)
def test_a_call_knows_whether_its_errors_are_caught(text: str, in_try: bool, alone: bool):
    (call,) = calls_in(text, KNOWN)
    assert (call.in_try, call.alone_in_try) == (in_try, alone)


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("SELECT id FROM t WHERE f('a') = 1", True),
        ("SELECT f(-1.5), 2", True),
        ("SELECT f([1, 2])", True),
        ("SELECT f(x := $1)", True),
        ("SELECT CASE WHEN a THEN 1 END, f(1)", True),
        ("SELECT (CASE WHEN a THEN 1 END) + f(1) AS b", True),
        ("SELECT abs(f(1))", True),
        ("SELECT f(a)", False),
        ("SELECT f(1 + a)", False),
        ("SELECT f(now())", False),
        ("SELECT f((SELECT 1))", False),
        ("SELECT CASE WHEN a THEN f(1) END", False),
        ("SELECT CASE WHEN a THEN abs(f(1)) END", False),
        ("SELECT CASE WHEN a THEN CASE WHEN b THEN 1 END + f(1) END", False),
        ("SELECT coalesce(a, f(1))", False),
        ("SELECT try(f(1))", False),
    ],
)
def test_a_call_knows_whether_it_is_one_with_constants_that_is_certain_to_be_reached(text: str, constant: bool):
    (call,) = calls_in(text, KNOWN)
    assert call.constant is constant


def test_a_call_with_calls_of_constants_is_one_of_constants():
    assert [call.constant for call in calls_in("SELECT f(f(1)), f(f(a))", KNOWN)] == [True, True, False, False]


def test_of_nested_calls_in_a_try_only_the_outer_is_alone():
    inner = calls_in("SELECT TRY(g(f(x), 1))", KNOWN)
    assert [(call.function, call.in_try, call.alone_in_try) for call in inner] == [
        ("g", True, True),
        ("f", True, False),
    ]


def test_a_text_that_does_not_parse_has_its_calls_found():
    assert replaced("SELECT f(x) FRM ( WHERE f(y) GARBAGE") == without_blanks(
        'SELECT "_f"(x) FRM ( WHERE "_f"(y) GARBAGE'
    )


def test_constants_for_a_class_are_told_apart_from_arguments():
    (call,) = calls_in("SELECT made(x + 1, by := 2, on => ['a'])", KNOWN)
    assert call.function == 'made{"On": ["a"], "by": 2}'
    (call,) = calls = calls_in("SELECT made(by := 2, x := y)", KNOWN)
    assert in_place("SELECT made(by := 2, x := y)", calls, {call.function: "_m"}).split() == [
        "SELECT",
        '"_m"',
        "(",
        "y)",
    ]


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ("SELECT made(x)", "is made with 'by'", 8),
        ("SELECT made(x, by := x)", "takes a constant for 'by'", 22),
        ("SELECT made(x, by := 1 + 1)", "takes a constant for 'by'", 24),
        ("SELECT made(x, by := 'a')", "takes int for 'by', not 'a'", 22),
        ("SELECT made(x, by := 1, BY := 2)", "is given 'by' twice", 25),
        ("SELECT made(x, 1)", "one too many: write made(x, by := …[, On := …])", 16),
    ],
)
def test_what_a_class_cannot_be_made_with_is_refused(text: str, said: str, column: int):
    with pytest.raises(InvalidQuery, match=re.escape(said)) as caught:
        calls_in(text, KNOWN)
    assert caught.value.facts["column"] == column
