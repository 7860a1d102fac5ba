"""Which registered Functions a text calls, found by its tokens: also in SQL that only DuckDB can parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lancegpu_sql.sql.call_sites import CLOSING, OPENING, Site, closings, sites, word_of
from lancegpu_sql.sql.names import choose, fold, quote
from lancegpu_sql.sql.places import query_error
from lancegpu_sql.sql.tokens import Token, TokenType, is_name, tokens_of

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
    """

    name: str
    parameters: tuple[str, ...]
    deterministic: bool
    version_digest: str = ""


@dataclass(frozen=True)
class TextCall:
    """One call of a Function in a text. Offsets are of characters; `end` and the like are one beyond the last.

    Attributes
    ----------
    function
        The Function's name, folded.
    start, end
        Where its name stands.
    open, close
        Where its brackets stand.
    arguments
        Where the expressions stand that are its arguments, in the order of its parameters.
    written_in_order
        Whether they stand so in the text, without names.
    in_try
        Whether an error in it is caught by a TRY around it.
    alone_in_try
        Whether it is all that stands in that TRY.
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


def calls_in(text: str, known: Mapping[str, Signature]) -> tuple[TextCall, ...]:
    """Every call of a known Function, in the order of the text.

    Parameters
    ----------
    text
        SQL of any kind, or one expression.
    known
        The Functions by their folded names.

    Raises
    ------
    InvalidQuery
        A call lacks arguments, has too many or unknown ones, or stands where a scalar function cannot.
    """
    tokens = tokens_of(text)
    names = {index for index, token in enumerate(tokens) if is_name(token) and fold(token.text) in known}
    if not names:
        return ()
    pairs = closings(tokens)
    found = sites(tokens, pairs)
    tries = [(index + 1, pairs[index + 1]) for index in found if word_of(tokens[index]) == "TRY" and index + 1 in pairs]
    calls: list[TextCall] = []
    for index in sorted(names & found.keys()):
        if found[index] is Site.OTHER:
            continue
        reader = _CallReader(text, tokens, index, known[fold(tokens[index].text)], pairs.get(index + 1))
        if found[index] is Site.TABLE_FUNCTION:
            raise reader.refusal(
                "gives one value for one row; it is no table. Write SELECT "
                f"{reader.signature.name}(…), or UNNEST({reader.signature.name}(…)) where it returns a list"
            )
        call = reader.call()
        close = reader.close
        around = [span for span in tries if span[0] < index and close < span[1]]
        alone = (index - 1, close + 1) in tries
        calls.append(replace(call, in_try=bool(around), alone_in_try=alone))
    return tuple(calls)


def in_place(text: str, calls: Sequence[TextCall], private_names: Mapping[str, str]) -> str:
    """The text with other names for the Functions, and every argument in its parameter's place without its name.

    Parameters
    ----------
    private_names
        By folded name, what to write in its place.
    """
    return renamed(text, calls, lambda call: quote(private_names[call.function]))


def renamed(text: str, calls: Sequence[TextCall], name: Callable[[TextCall], str]) -> str:
    """The text with another name for each call, as SQL, and every argument in its parameter's place."""
    return _rewritten(text, 0, len(text), sorted(calls, key=lambda call: call.start), name)


def _rewritten(text: str, start: int, end: int, calls: Sequence[TextCall], name: Callable[[TextCall], str]) -> str:
    pieces: list[str] = []
    at = start
    for call in calls:
        if call.start < at or call.close >= end:
            continue  # written already, or outside of this part
        pieces += [text[at : call.start], name(call)]
        at = call.end
        if not call.written_in_order:
            inner = [other for other in calls if call.open < other.start and other.close < call.close]
            arguments = (_rewritten(text, *span, inner, name) for span in call.arguments)
            pieces += [text[call.end : call.open + 1], ", ".join(arguments)]
            at = call.close
    pieces.append(text[at:end])
    return "".join(pieces)


class _CallReader:
    """Reads the arguments of the call whose name is at an index."""

    def __init__(self, text: str, tokens: Sequence[Token], index: int, signature: Signature, close: int | None) -> None:
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
        named = False
        unpacked = False
        for position, (name, tokens) in enumerate(written):
            unpacked = unpacked or _unpacks(tokens)
            named = named or name is not None
            parameter = self._parameter(position, name, tokens, named)
            if parameter in by_parameter:
                raise self.refusal(f"is given {parameter!r} twice", name)
            by_parameter[parameter] = (tokens[0].start, tokens[-1].end + 1)
        missing = [name for name in self.signature.parameters if name not in by_parameter]
        if missing and not unpacked:
            raise self.refusal(f"lacks {', '.join(map(repr, missing))}: {self._usage()}")
        in_order = tuple(by_parameter[name] for name in self.signature.parameters if name in by_parameter)
        opened, closed = self._tokens[self._first - 1].start, self._tokens[self.close].start
        return TextCall(
            fold(self._name.text),
            self._name.start,
            self._name.end + 1,
            opened,
            closed,
            in_order,
            not named,
            False,
            False,
        )

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
        return f"write {self.signature.name}({', '.join(self.signature.parameters)})"


def _unpacks(tokens: Sequence[Token]) -> bool:
    """Whether an argument stands for any number of them: ``*COLUMNS(...)``."""
    return len(tokens) > 1 and tokens[0].token_type is TokenType.STAR and word_of(tokens[1]) == "COLUMNS"


def _counted(names: Sequence[str]) -> str:
    return {0: "no argument", 1: "one argument"}.get(len(names), f"{len(names)} arguments")
