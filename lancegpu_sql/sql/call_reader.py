"""How a call of a Function reads: its arguments, in the order of its parameters, and what its class is made with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.functions.binding import InitValue
from lancegpu_sql.functions.init_types import suits
from lancegpu_sql.sql.call_sites import CLOSING, OPENING, word_of
from lancegpu_sql.sql.constants import NoConstant, constant_of, constant_text
from lancegpu_sql.sql.names import choose, fold
from lancegpu_sql.sql.places import query_error
from lancegpu_sql.sql.tokens import Token, TokenType, is_name

_NAMES_ARGUMENT = frozenset({TokenType.COLON_EQ, TokenType.FARROW})


@dataclass(frozen=True)
class Signature:
    """What SQL must know of a Function.

    Attributes
    ----------
    name
        As it was registered.
    parameters
        The names of its parameters, in order.
    deterministic
        Whether equal arguments give equal results, so that a result may be used twice.
    version_digest
        Of the version that a query calls; empty where no stored value may be used.
    init_parameters
        Those of a class's ``__init__``, to which a call gives constants by name.
    """

    name: str
    parameters: tuple[str, ...]
    deterministic: bool
    version_digest: str = ""
    init_parameters: tuple[InitValue, ...] = ()


@dataclass(frozen=True)
class TextCall:
    """One call of a Function in a text. Offsets are of characters; `end` and the like are one beyond the last.

    Attributes
    ----------
    function
        The Function's name, folded; with the constants that the call gives to the ``__init__`` of its class, see
        `with_values`.
    start, end
        Where its name stands.
    open, close
        Where its brackets stand.
    arguments
        Where the expressions stand that are its arguments, in the order of its parameters.
    written_in_order
        Whether they stand so in the text, without names, and nothing else with them.
    in_try
        Whether an error in it is caught by a TRY around it.
    alone_in_try
        Whether it is all that stands in that TRY.
    constant
        Whether its arguments are constants, and nothing around it may keep it from being evaluated.
    is_method
        Whether its first argument stands before it: ``x.f()``.
    """

    function: str
    start: int
    end: int
    open: int
    close: int
    arguments: tuple[tuple[int, int], ...]
    written_in_order: bool
    in_try: bool
    alone_in_try: bool
    constant: bool = False
    is_method: bool = False


def with_values(function: str, values: Mapping[str, Any]) -> str:
    """What tells a Function whose class is made with these values from the same one made with others."""
    return f"{function}{json.dumps(values, sort_keys=True, ensure_ascii=False)}" if values else function


def without_values(function: str) -> str:
    """The name of a Function alone."""
    return function.partition("{")[0]


def values_in(function: str) -> dict[str, Any]:
    """The values with which the class is made."""
    values: dict[str, Any] = json.loads(function[len(without_values(function)) :] or "{}")
    return values


class CallReader:
    """Reads the arguments of the call whose name is at an index."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        index: int,
        signature: Signature,
        close: int | None,
        *,
        is_method: bool = False,
    ) -> None:
        self._is_method = is_method
        self._text, self._tokens, self._name = text, tokens, tokens[index]
        self.signature = signature
        if close is None:
            raise query_error(
                f"The bracket after {signature.name} is not closed.", text, tokens[index + 1].start, expected=(")",)
            )
        self._first, self.close = index + 2, close

    def refusal(self, what: str, at: Token | None = None) -> Exception:
        token = at or self._name
        return query_error(
            f"The Function {self.signature.name!r} {what}.", self._text, token.start, function=self.signature.name
        )

    def call(self) -> TextCall:
        self._check_form()
        written = self._written()
        by_parameter: dict[str, tuple[int, int]] = {}
        before = 1 if self._is_method else 0
        values: dict[str, Any] = {}
        named = False
        unpacked = False
        for position, (name, tokens) in enumerate(written, before):
            unpacked = unpacked or _unpacks(tokens)
            named = named or name is not None
            init = self._init_parameter(name)
            if name is not None and init is not None:
                if init.name in values:
                    raise self.refusal(f"is given {init.name!r} twice", name)
                values[init.name] = self._constant(init, tokens)
                continue
            parameter = self._parameter(position, name, tokens, named)
            if parameter in by_parameter or (before and parameter == self.signature.parameters[0]):
                raise self.refusal(f"is given {parameter!r} twice", name)
            by_parameter[parameter] = (tokens[0].start, tokens[-1].end + 1)
        missing = [name for name in self.signature.parameters[before:] if name not in by_parameter]
        if missing and not unpacked:
            raise self.refusal(f"lacks {', '.join(map(repr, missing))}: {self._usage()}")
        unmade = [each.name for each in self.signature.init_parameters if each.required and each.name not in values]
        if unmade:
            raise self.refusal(f"is made with {', '.join(map(repr, unmade))}, to be given by name: {self._usage()}")
        in_order = tuple(by_parameter[name] for name in self.signature.parameters if name in by_parameter)
        opened, closed = self._tokens[self._first - 1].start, self._tokens[self.close].start
        return TextCall(
            with_values(fold(self._name.text), values),
            self._name.start,
            self._name.end + 1,
            opened,
            closed,
            in_order,
            not named,
            False,
            False,
            is_method=self._is_method,
        )

    def _init_parameter(self, name: Token | None) -> InitValue | None:
        if name is None or choose(name.text, self.signature.parameters) is not None:
            return None
        by_name = {each.name: each for each in self.signature.init_parameters}
        chosen = choose(name.text, by_name)
        return None if chosen is None else by_name[chosen]

    def _constant(self, init: InitValue, tokens: Sequence[Token]) -> Any:
        try:
            value = constant_of(tokens)
        except NoConstant as exc:
            raise self.refusal(
                f"takes a constant for {init.name!r}: it is made with it once, not for each row", exc.token or tokens[0]
            ) from None
        if init.type is not None and not suits(value, init.type):
            raise self.refusal(f"takes {init.type} for {init.name!r}, not {constant_text(value)}", tokens[0])
        return value

    def _parameter(self, position: int, name: Token | None, tokens: Sequence[Token], named: bool) -> str:
        parameters = self.signature.parameters
        if name is not None:
            chosen = choose(name.text, parameters)
            if chosen is None:
                raise self.refusal(f"has no parameter {name.text!r}: {self._usage()}", name)
            return chosen
        if named:
            raise self.refusal("is given an argument without a name after one with a name", tokens[0])
        if position >= len(parameters):
            raise self.refusal(f"takes {_counted(parameters)}, and this is one too many: {self._usage()}", tokens[0])
        return parameters[position]

    def _written(self) -> list[tuple[Token | None, Sequence[Token]]]:
        """The arguments, each with the token of its name if it has one."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        for token in self._tokens[self._first : self.close]:
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if token.token_type is TokenType.COMMA and depth == 0:
                arguments.append([])
            else:
                arguments[-1].append(token)
        if arguments == [[]]:
            return []
        if not arguments[-1] and len(arguments) > 1:
            arguments.pop()  # DuckDB allows a comma at the end of a list; where it does not, it says so
        found: list[tuple[Token | None, Sequence[Token]]] = []
        for argument in arguments:
            named = len(argument) > 1 and is_name(argument[0]) and argument[1].token_type in _NAMES_ARGUMENT
            name, tokens = (argument[0], argument[2:]) if named else (None, argument)
            if not tokens:
                raise self.refusal("is given an empty argument", self._tokens[self.close])
            found.append((name, tokens))
        return found

    def _check_form(self) -> None:
        """Refuse what only an aggregate or a window function takes."""
        inside = self._tokens[self._first : self.close]
        if inside and word_of(inside[0]) == "DISTINCT":
            raise self.refusal("is no aggregate: DISTINCT has no meaning in its brackets", inside[0])
        if len(inside) == 1 and inside[0].token_type is TokenType.STAR:
            raise self.refusal(f"takes expressions, not *: {self._usage()}", inside[0])
        depth = 0
        for token in inside:
            depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
            if depth == 0 and token.token_type is TokenType.ORDER_BY:
                raise self.refusal("is no aggregate: ORDER BY has no meaning in its brackets", token)
        after = self._tokens[self.close + 1 : self.close + 3]
        words = [word_of(token) for token in after]
        if len(after) == 2 and words[0] in {"FILTER", "WITHIN", "OVER"}:
            bracket = after[1].token_type is TokenType.L_PAREN
            window = words[0] == "OVER" and after[1].token_type in {TokenType.VAR, TokenType.IDENTIFIER}
            if bracket or window or words == ["WITHIN", "GROUP"]:
                kind = "window function" if words[0] == "OVER" else "aggregate"
                raise self.refusal(f"is no {kind}: {words[0]} has no meaning after it", after[0])

    def _usage(self) -> str:
        made_with = self.signature.init_parameters
        values = [f"{each.name} := …" for each in made_with if each.required]
        optional = "".join(f"[, {each.name} := …]" for each in made_with if not each.required)
        return f"write {self.signature.name}({', '.join([*self.signature.parameters, *values])}{optional})"


def _unpacks(tokens: Sequence[Token]) -> bool:
    """Whether an argument stands for any number of them: ``*COLUMNS(...)``."""
    return len(tokens) > 1 and tokens[0].token_type is TokenType.STAR and word_of(tokens[1]) == "COLUMNS"


def _counted(names: Sequence[str]) -> str:
    return {0: "no argument", 1: "one argument"}.get(len(names), f"{len(names)} arguments")
