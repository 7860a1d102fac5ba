"""Reads one statement word by word, and says what it expected where the next word is another one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.places import Place, place_of
from lancegpu_sql.sql.statements.fault import fault
from lancegpu_sql.sql.statements.scanner import Kind, Word

T = TypeVar("T")

_OPEN = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_CLOSE = {closing: opening for opening, closing in _OPEN.items()}


class Reader:
    """The words of one statement.

    Parameters
    ----------
    text
        The whole text that the statement stands in.
    words
        The statement's own, ending with one of kind END.
    is_foreign
        Whether a table belongs to DuckDB.

    Attributes
    ----------
    table
        The table that the statement writes to, once its name is read; None before, and where there is none.
    """

    def __init__(
        self,
        text: str,
        words: Sequence[Word],
        is_foreign: Callable[[tuple[str, ...]], bool] = lambda _name: False,
    ) -> None:
        self.whole = text
        self.is_foreign = is_foreign
        self._words = words
        self._at = 0
        self.table: tuple[str, ...] | None = None

    @property
    def start(self) -> Place:
        """Where the statement begins."""
        return place_of(self.whole, self._words[0].start)

    @property
    def text(self) -> str:
        """The statement as written, without what stands around it."""
        return self.text_between(0, len(self._words) - 1)

    # Looking

    def peek(self, ahead: int = 0) -> Word:
        """Return a word without taking it."""
        return self._words[min(self._at + ahead, len(self._words) - 1)]

    @property
    def at(self) -> int:
        """The number of the next word: to come back to with `go_to`, or for `text_between`."""
        return self._at

    def go_to(self, at: int) -> None:
        """Go on from a word."""
        self._at = at

    @property
    def ended(self) -> bool:
        """Whether no word is left."""
        return self.peek().kind is Kind.END

    def sees(self, *keywords: str) -> bool:
        """Tell whether these keywords come next, in this order."""
        return all(self.peek(ahead).folded == keyword for ahead, keyword in enumerate(keywords))

    def follows(self, keyword: str) -> bool:
        """Tell whether the word before the next one is this keyword."""
        return self._at > 0 and self._words[self._at - 1].folded == keyword

    def sees_sign(self, sign: str, ahead: int = 0) -> bool:
        """Tell whether this sign comes next."""
        word = self.peek(ahead)
        return word.kind is Kind.SIGN and word.value == sign

    # Taking

    def take(self) -> Word:
        """Take the next word, whatever it is."""
        word = self.peek()
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def accept(self, *keywords: str) -> bool:
        """Take these keywords if they come next."""
        found = self.sees(*keywords)
        if found:
            self._at += len(keywords)
        return found

    def accept_sign(self, sign: str) -> bool:
        """Take this sign if it comes next."""
        found = self.sees_sign(sign)
        if found:
            self._at += 1
        return found

    def keywords(self, *keywords: str) -> None:
        """Take keywords, one after the other."""
        for keyword in keywords:
            if not self.accept(keyword):
                self.refuse(expected=keyword)

    def one_of(self, *keywords: str) -> str:
        """Take one of several keywords, and return it."""
        if self.peek().folded not in keywords:
            self.refuse(expected=keywords)
        return self.take().folded

    def sign(self, sign: str) -> None:
        """Take a sign."""
        if not self.accept_sign(sign):
            self.refuse(expected=sign)

    def name(self, what: str) -> str:
        """Take a name, quoted or not; `what` says of what."""
        if not self.peek().is_name:
            self.refuse(expected=what)
        word = self.take()
        if not word.value:
            self.refuse_word(word, "A name needs at least one character", expected=what)
        return word.value

    def dotted_name(self, what: str) -> tuple[str, ...]:
        """Take a name with the names before it, such as ``main.t``."""
        parts = [self.name(what)]
        while self.accept_sign("."):
            parts.append(self.name(what))
        return tuple(parts)

    def table_name(self) -> tuple[str, ...]:
        """Take the name of the table that the statement writes to."""
        self.table = self.dotted_name("the name of a table")
        return self.table

    def string(self, what: str) -> str:
        """Take a string in quotes or between dollar signs."""
        if self.peek().kind not in (Kind.STRING, Kind.BODY):
            self.refuse(expected=what)
        return self.take().value

    def count(self, what: str) -> int:
        """Take a whole number of at least 1."""
        word = self.peek()
        if word.kind is not Kind.NUMBER or not word.value.isascii() or not word.value.isdigit():
            self.refuse(expected=what)
        if len(word.value) > 18 or int(word.value) < 1:
            self.refuse("This number is out of range", expected=f"{what}, of at least 1")
        self.take()
        return int(word.value)

    def list_of(self, item: Callable[[], T]) -> list[T]:
        """Take items between brackets, with commas between them, and perhaps, as in DuckDB, after the last."""
        self.sign("(")
        items = [item()]
        while self.accept_sign(",") and not self.sees_sign(")"):
            items.append(item())
        if not self.accept_sign(")"):
            self.refuse(expected=(",", ")"))
        return items

    def end(self) -> None:
        """Make sure that nothing follows."""
        if not self.ended:
            self.refuse(expected="the end of the statement")

    # Text of DuckDB's, which is not read here

    def text_between(self, start: int, end: int) -> str:
        """Return what stands from one word to before another, as written."""
        return self.whole[self._words[start].start : self._words[end - 1].end] if end > start else ""

    def text_with_defaults(self, start: int, end: int) -> str:
        """Return what stands from one word to before another, where DEFAULT among VALUES is null."""
        words, text, at = self._words[start:end], "", self._words[start].start
        if words and words[0].folded == "VALUES":
            for before, word, after in zip(words, words[1:], words[2:], strict=False):
                if word.folded == "DEFAULT" and before.value in ("(", ",") and after.value in (")", ","):
                    text += self.whole[at : word.start] + "NULL"
                    at = word.end
        return text + self.whole[at : words[-1].end]

    def text_until(self, stops: Callable[[], bool], what: str) -> str:
        """Take everything until `stops` says yes outside of all brackets, or to the end; return it as written.

        Raises
        ------
        ParseError
            There is nothing, or a bracket has no other half.
        """
        first = self._at
        opened: list[Word] = []
        while not self.ended:
            word = self.peek()
            mark = self._mark()
            if not opened and (mark in _CLOSE or stops()):
                break
            if mark in _OPEN:
                opened.append(word)
            elif mark in _CLOSE and (opened.pop().value.upper() != _CLOSE[mark]):
                self.refuse("Brackets do not match")
            self.take()
        if opened:
            self.refuse_word(opened[-1], "This is not closed", expected=_OPEN[opened[-1].value.upper()])
        if self._at == first:
            self.refuse(expected=what)
        return self.text_between(first, self._at)

    def _mark(self) -> str:
        """The next word where it opens or closes something: a bracket, or CASE and END."""
        word = self.peek()
        if word.kind is Kind.SIGN:
            return word.value
        after_dot = self._at > 0 and self._words[self._at - 1].value == "."
        return "" if after_dot else word.folded

    def text_in_brackets(self, what: str) -> str:
        """Take what stands between a bracket and its other half."""
        self.sign("(")
        text = self.text_until(lambda: False, what)
        self.sign(")")
        return text

    def rest_words(self) -> list[Word]:
        """Take everything to the end, as the words of a statement of its own."""
        found = list(self._words[self._at :])
        self._at = len(self._words) - 1
        return found

    # Refusing

    def refuse(self, told: str = "", *, expected: str | Sequence[str] = ()) -> NoReturn:
        """Say that the next word does not suit, with the keyword that was perhaps meant."""
        self.refuse_word(self.peek(), told, expected=expected)

    def refuse_word(self, word: Word, told: str = "", *, expected: str | Sequence[str] = ()) -> NoReturn:
        """Say that a word does not suit."""
        raise self.fault(word, told, expected=expected)

    def fault(self, word: Word, told: str = "", *, expected: str | Sequence[str] = ()) -> ParseError:
        """Return the error for a word that does not suit."""
        wanted = (expected,) if isinstance(expected, str) else tuple(expected)
        return fault(self.whole, word.start, told or self._said_of(word, wanted), expected=wanted)

    def _said_of(self, word: Word, wanted: tuple[str, ...]) -> str:
        if word.kind is Kind.END:
            return "The statement is not complete"
        written = self.whole[word.start : word.end]
        shown = written if len(written) <= 40 else f"{written[:37]}..."
        near = difflib.get_close_matches(word.folded, [one for one in wanted if one.isupper()], n=1, cutoff=0.7)
        guess = f" (did you mean {near[0]}?)" if near and near[0] != word.folded else ""
        return f"{shown!r} does not belong here{guess}"
