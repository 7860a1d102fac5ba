"""Which registered Functions a text calls, found by its tokens: also in SQL that only DuckDB can parse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.call_reader import CallReader, Signature, TextCall
from lancegpu_sql.sql.call_sites import Site, closings, sites, word_of
from lancegpu_sql.sql.constant_calls import is_constant, is_reached
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.tokens import is_name, tokens_of

__all__ = ["Signature", "TextCall", "calls_in", "in_place", "renamed"]


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
        is_method = found[index] is Site.METHOD
        signature = known[fold(tokens[index].text)]
        reader = CallReader(text, tokens, index, signature, pairs.get(index + 1), is_method=is_method)
        if found[index] is Site.TABLE_FUNCTION:
            raise reader.refusal(
                "gives one value for one row; it is no table. Write SELECT "
                f"{reader.signature.name}(…), or UNNEST({reader.signature.name}(…)) where it returns a list"
            )
        try:
            call = reader.call()
        except InvalidQuery:
            if is_method and is_name(tokens[index - 2]):
                continue  # a function of a schema, perhaps, of which DuckDB knows more
            raise
        close = reader.close
        around = [span for span in tries if span[0] < index and close < span[1]]
        alone = not is_method and (index - 1, close + 1) in tries
        constant = (
            not is_method
            and is_constant(tokens, (index + 1, close), names & found.keys())
            and is_reached(tokens, index)
        )
        calls.append(replace(call, in_try=bool(around), alone_in_try=alone, constant=constant))
    return tuple(calls)


def in_place(text: str, calls: Sequence[TextCall], private_names: Mapping[str, str]) -> str:
    """The text with other names for the Functions, and every argument in its parameter's place without its name.

    What follows stays in its column, unless arguments are written in another order than that of the parameters.

    Parameters
    ----------
    private_names
        By folded name, what to write in its place.
    """

    def name(call: TextCall) -> str:
        private = private_names[call.function]
        return quote(private) + " " * (call.end - call.start - len(private))

    return renamed(text, calls, name)


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
            arguments = [_rewritten(text, *span, inner, name) for span in call.arguments]
            pieces += [text[call.end : call.open + 1], *_spread(text, call, arguments)]
            at = call.close
    pieces.append(text[at:end])
    return "".join(pieces)


def _spread(text: str, call: TextCall, arguments: Sequence[str]) -> Iterator[str]:
    """A call's arguments, each where it stands, and nothing of what else is in its brackets."""
    if list(call.arguments) != sorted(call.arguments):
        yield ", ".join(arguments)
        return
    at = call.open + 1
    for number, ((start, end), argument) in enumerate(zip(call.arguments, arguments, strict=True)):
        between = _NO_LINE_END.sub(" ", text[at:start])
        yield f",{between[1:]}" if number else between
        yield argument
        at = end
    yield _NO_LINE_END.sub(" ", text[at : call.close])


_NO_LINE_END = re.compile(r"[^\r\n]")
