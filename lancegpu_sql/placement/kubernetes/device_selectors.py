"""Whether a device is as a CEL expression of a DeviceClass or a claim asks: the part of CEL that such expressions use.

The scheduler has the last word. Here it is only told, while a job waits, whether any device could ever do; of what is not
understood (arithmetic, macros, regular expressions, versions) nothing is claimed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lancegpu_sql.placement.kubernetes.quantities import parse_quantity

Facts = Mapping[str, Any]
"""What an expression knows as `device`: ``driver``, and ``attributes`` and ``capacity`` by domain and name."""

_Evaluate = Callable[[Facts], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>&&|\|\||[=!<>]=|[][().,!<>?:-]))"""
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, many: one in many,
}
_CONSTANTS = {"true": True, "false": False, "null": None}


class _NotUnderstood(Exception):
    """More than this part of CEL."""


class _Fault(Exception):
    """What CEL calls a runtime error, such as a name that the device has not: it is then not chosen."""


@dataclass(frozen=True, order=True)
class Quantity:
    """An amount, in thousandths."""

    thousandths: int


def meets(facts: Facts, expressions: Iterable[str]) -> bool | None:
    """Tell whether a device meets all of these; None where that is not understood."""
    answers = [_answer(_parsed(expression), facts) for expression in expressions]
    return False if False in answers else None if None in answers else True


def _answer(evaluate: _Evaluate | None, facts: Facts) -> bool | None:
    if evaluate is None:
        return None
    try:
        return evaluate(facts) is True
    except (_NotUnderstood, RecursionError):
        return None
    except (_Fault, TypeError):
        return False


@lru_cache(maxsize=256)
def _parsed(expression: str) -> _Evaluate | None:
    try:
        parser = _Parser(_tokens(expression))
        found = parser.choice()
        return found if parser.at_end else None
    except (_NotUnderstood, RecursionError):
        return None


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at, text = [], 0, expression.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _NotUnderstood
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


class _Parser:
    """Reads from left to right, the loosest binding first; each method gives what computes its part."""

    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self._tokens, self._at = tokens, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def choice(self) -> _Evaluate:
        condition = self._either()
        if not self._takes("?"):
            return condition
        yes = self.choice()
        self._expect(":")
        no = self.choice()
        return lambda facts: yes(facts) if condition(facts) is True else no(facts)

    def _either(self) -> _Evaluate:
        found = self._both()
        while self._takes("||"):
            found = _joined(found, self._both(), decides=True)
        return found

    def _both(self) -> _Evaluate:
        found = self._comparison()
        while self._takes("&&"):
            found = _joined(found, self._comparison(), decides=False)
        return found

    def _comparison(self) -> _Evaluate:
        left = self._unary()
        while self._next in _COMPARISONS:
            left = _compared(_COMPARISONS[self._take()[1]], left, self._unary())
        return left

    def _unary(self) -> _Evaluate:
        if self._takes("!"):
            negated = self._unary()
            return lambda facts: negated(facts) is not True
        if self._takes("-"):
            positive = self._unary()
            return lambda facts: -positive(facts)
        found = self._primary()
        while True:
            if self._takes("."):
                found = self._member(found)
            elif self._takes("["):
                key = self.choice()
                self._expect("]")
                found = _item(found, key)
            else:
                return found

    def _member(self, of: _Evaluate) -> _Evaluate:
        kind, name = self._take()
        if kind != "name":
            raise _NotUnderstood
        if self._takes("("):
            return _called(name, of, self._arguments(")"))
        return _item(of, lambda _: name)

    def _primary(self) -> _Evaluate:
        kind, word = self._take()
        if kind == "text":
            text = re.sub(r"\\(.)", r"\1", word[1:-1])
            return lambda _: text
        if kind == "number":
            number = float(word) if "." in word else int(word)
            return lambda _: number
        if word == "(":
            found = self.choice()
            self._expect(")")
            return found
        if word == "[":
            several = self._arguments("]")
            return lambda facts: [one(facts) for one in several]
        if word in _CONSTANTS:
            return lambda _: _CONSTANTS[word]
        if word == "device":
            return lambda facts: facts
        if word == "quantity" and self._takes("("):
            return _quantity(self._arguments(")"))
        raise _NotUnderstood

    def _arguments(self, end: str) -> list[_Evaluate]:
        found: list[_Evaluate] = []
        while not self._takes(end):
            if found:
                self._expect(",")
            found.append(self.choice())
        return found

    @property
    def _next(self) -> str:
        kind, word = ("", "") if self.at_end else self._tokens[self._at]
        return "" if kind == "text" else word

    def _take(self) -> tuple[str, str]:
        if self.at_end:
            raise _NotUnderstood
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, sign: str) -> bool:
        taken = self._next == sign
        self._at += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise _NotUnderstood


def _joined(left: _Evaluate, right: _Evaluate, *, decides: bool) -> _Evaluate:
    """``||`` and ``&&``: the side that decides does so whatever becomes of the other."""

    def join(facts: Facts) -> bool:
        trouble: Exception | None = None
        for side in (left, right):
            try:
                if side(facts) == decides:
                    return decides
            except (_NotUnderstood, _Fault, TypeError) as exc:
                # What is not understood may yet decide; a fault does not.
                trouble = trouble if isinstance(trouble, _NotUnderstood) else exc
        if trouble is not None:
            raise trouble
        return not decides

    return join


def _compared(compare: Callable[[Any, Any], Any], left: _Evaluate, right: _Evaluate) -> _Evaluate:
    return lambda facts: bool(compare(left(facts), right(facts)))


def _item(of: _Evaluate, key: _Evaluate) -> _Evaluate:
    def look_up(facts: Facts) -> Any:
        there, name = of(facts), key(facts)
        if not isinstance(there, Mapping):
            raise _NotUnderstood
        # A domain that the device says nothing of is empty; a name that it lacks is a fault.
        if any(there is facts.get(one) for one in ("attributes", "capacity")):
            return there.get(name, {})
        if name not in there:
            raise _NotUnderstood if there is facts else _Fault
        if there[name] is None:
            raise _NotUnderstood
        return there[name]

    return look_up


def _called(name: str, of: _Evaluate, arguments: list[_Evaluate]) -> _Evaluate:
    def call(facts: Facts) -> Any:
        subject, given = of(facts), [one(facts) for one in arguments]
        match subject, name, given:
            case str(), "startsWith" | "endsWith", [str(part)]:
                return subject.startswith(part) if name == "startsWith" else subject.endswith(part)
            case str(), "contains", [str(part)]:
                return part in subject
            case str(), "lowerAscii", []:
                return subject.lower()
            case Quantity(), "compareTo", [Quantity() as other]:
                return (subject > other) - (subject < other)
            case Quantity(), "isGreaterThan", [Quantity() as other]:
                return subject > other
            case Quantity(), "isLessThan", [Quantity() as other]:
                return subject < other
        raise _NotUnderstood

    return call


def _quantity(arguments: list[_Evaluate]) -> _Evaluate:
    def read(facts: Facts) -> Quantity:
        amount = parse_quantity(arguments[0](facts)) if len(arguments) == 1 else None
        if amount is None:
            raise _Fault
        return Quantity(amount)

    return read
