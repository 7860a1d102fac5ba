from __future__ import annotations

import pytest

from lancegpu_sql import col, function
from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions import Binding, ColumnRef


@function(name="shout")
def shout(text: str, *, mark: str) -> str:
    return text.upper() + mark


@function(name="scale")
class Scale:
    closed = 0

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        self.factor, self.offset = factor, offset

    def __call__(self, value: float) -> float:
        return value * self.factor + self.offset

    def close(self) -> None:
        type(self).closed += 1


def test_a_call_with_columns_is_a_binding() -> None:
    binding = shout(text=col("body"), mark=col("end"))
    assert isinstance(binding, Binding)
    assert binding.arguments == {"text": ColumnRef("body"), "mark": ColumnRef("end")}


def test_columns_may_be_given_by_position() -> None:
    assert shout(col("body"), mark=col("end")).arguments["text"] == ColumnRef("body")


def test_any_other_call_runs_here() -> None:
    assert shout("good", mark="!") == "GOOD!"


def test_values_of_init_belong_to_the_binding() -> None:
    binding = Scale(value=col("x"), factor=2.0)
    assert (binding.arguments, binding.bound) == ({"value": ColumnRef("x")}, {"factor": 2.0})


def test_a_class_called_with_values_is_made_called_and_closed_here() -> None:
    before = Scale.target.closed  # type: ignore[attr-defined]
    assert Scale(3.0, factor=2.0, offset=1.0) == 7.0
    assert Scale.target.closed == before + 1  # type: ignore[attr-defined]


def test_the_undecorated_class_makes_an_instance_to_keep() -> None:
    assert Scale.target(2.0)(4.0) == 8.0


def test_a_binding_reads_as_it_was_written() -> None:
    assert repr(Scale(value=col("x"), factor=2.0)) == "scale(value=col('x'), factor=2.0)"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: shout(text=col("a")), "lacks mark"),
        (lambda: Scale(value=col("a")), "lacks factor"),
        (lambda: shout(text=col("a"), mark="!"), "takes a column, such as mark=col"),
        (lambda: shout(text=col("a"), mark=col("b"), loud=True), "no parameter 'loud'"),
        (lambda: shout(col("a"), text=col("b"), mark=col("c")), "'text' twice"),
        (lambda: shout(col("a"), col("b"), col("c")), "was given 3 columns"),
        (lambda: Scale(value=col("a"), factor=col("b")), "takes a value, not col"),
        (lambda: Scale(value=col("a"), factor=(1, 2)), "a tuple"),
        (lambda: Scale(value=col("a"), factor=float("nan")), "as JSON"),
        (lambda: shout(text=shout(text=col("a"), mark=col("b")), mark=col("b")), "Declare that one as a column first"),
        (lambda: Scale(value=Scale(value=col("x"), factor=2.0), factor=3.0), r'add_columns\(.*value=col\("a"\)'),
        (lambda: Scale(value=col("x"), factor=Scale(value=col("x"), factor=2.0)), "takes a value, not scale"),
        (lambda: col("x") + 1, "takes no operators"),
        (lambda: 2 * col("x"), "takes no operators"),
        (lambda: -col("x"), "takes no operators"),
        (lambda: col("x") == 1, "takes no operators"),
        (lambda: col("x") != "a", "takes no operators"),
        (lambda: col("x") > col("y"), "takes no operators"),
        (lambda: col("x")["field"], "takes no operators"),
        (lambda: list(col("x")), "takes no operators"),  # type: ignore[call-overload]
        (lambda: not col("x"), "takes no operators"),
        (lambda: shout(text=col("a"), mark=col("b")).rename(5), "takes a mapping"),  # type: ignore[arg-type]
        (lambda: col(""), "the name of a column"),
        (lambda: col(3), "the name of a column"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_binding_says_what_to_write(call: object, says: str) -> None:
    with pytest.raises(InvalidBinding, match=says):
        call()  # type: ignore[operator]


def test_columns_are_told_apart_by_their_names() -> None:
    assert {col("a"), col("a"), col("b")} == {col("b"), col("a")}
    assert col("a") != col("b")
    assert col("a") is not None


def test_rename_names_the_columns_of_a_struct() -> None:
    binding = Scale(value=col("x"), factor=2.0).rename({"label": "kind"})
    assert binding.columns == {"label": "kind"}


def test_rename_refuses_one_column_for_two_fields() -> None:
    with pytest.raises(InvalidBinding, match="one column to two fields"):
        Scale(value=col("x"), factor=2.0).rename({"a": "c", "b": "c"})
