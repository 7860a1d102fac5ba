"""Reading the text of Arrow types: what `arrow_types` writes, and what pyarrow prints."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction

PLAIN_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.utf8(),
    "large_utf8": pa.large_utf8(),
    "utf8_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_ALIASES = {
    "string": "utf8",
    "large_string": "large_utf8",
    "string_view": "utf8_view",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
_SQL_WORDS = {
    "bigint": "int64",
    "int": "int64",
    "integer": "int32",
    "smallint": "int16",
    "tinyint": "int8",
    "real": "float32",
    "varchar": "utf8",
    "text": "utf8",
    "str": "utf8",
    "blob": "binary",
    "bytea": "binary",
    "bytes": "binary",
    "date": "date32",
    "timestamp": "timestamp[us]",
    "timestamptz": "timestamp[us, UTC]",
}
_LISTS: dict[str, Any] = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s<>()\[\],:=]+|[<>()\[\],:=])')


class TypeReader:
    """A descent over the tokens of one type's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                self.refuse()
            self.tokens.append(match[1])
            position = match.end()
        self.at = 0

    def refuse(self, because: str = "") -> NoReturn:
        words = _SQL_WORDS.get(self.text.strip().lower())
        hint = because or (f"write {words!r}" if words else "write it in Arrow's words, such as 'int64', 'utf8', "
                           "'list<float32>', 'fixed_size_list<float32, 384>' or 'timestamp[us, UTC]'")  # fmt: skip
        raise InvalidFunction(f"{self.text!r} is no Arrow type: {hint}.", type=self.text)

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if not token or (expected and token not in expected):
            self.refuse()
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def end(self) -> None:
        if self.peek():
            self.refuse()

    def number(self) -> int:
        token = self.take()
        if not re.fullmatch(r"-?\d+", token):
            self.refuse()
        return int(token)

    def type(self) -> pa.DataType:
        word = self.take()
        try:
            return self._type(word)
        except (pa.ArrowInvalid, ValueError, TypeError, OverflowError) as problem:
            self.refuse(str(problem))

    def _type(self, word: str) -> pa.DataType:
        if word in ("date32", "date64") and self.accept("["):
            self.take("day", "ms")
            self.take("]")
            return PLAIN_TYPES[word]
        word = _ALIASES.get(word, word)
        if word in PLAIN_TYPES:
            return PLAIN_TYPES[word]
        nested = getattr(self, f"_{word}", None) if word in _NESTED else None
        if nested is not None:
            return nested()
        if word in _LISTS:
            return _LISTS[word](self._single_item())
        if word in ("time32", "time64", "duration"):
            return getattr(pa, word)(self._bracketed())
        if word == "fixed_size_binary":
            return pa.binary(int(self._bracketed()))
        if word in ("decimal32", "decimal64", "decimal128", "decimal256"):
            return self._decimal(getattr(pa, word))
        return self.refuse()

    def _bracketed(self) -> str:
        self.take("[")
        word = self.take()
        self.take("]")
        return word

    def _decimal(self, make: Any) -> pa.DataType:
        self.take("(")
        precision = self.number()
        scale = self.number() if self.accept(",") else 0
        self.take(")")
        return make(precision, scale)

    def _item(self) -> pa.Field:
        """Read the type inside a list or map, with or without the child's name that pyarrow prints."""
        if self.peek(1) == ":":
            self.take()
            self.take(":")
        return self._field_of("item")

    def _field_of(self, name: str) -> pa.Field:
        arrow_type = self.type()
        nullable = not self.accept("not")
        if not nullable:
            self.take("null")
        return pa.field(name, arrow_type, nullable)

    def _single_item(self) -> pa.Field:
        self.take("<")
        field = self._item()
        self.take(">")
        return field

    def _fixed_size_list(self) -> pa.DataType:
        self.take("<")
        field = self._item()
        if self.accept(","):
            size = self.number()
            self.take(">")
        else:
            self.take(">")
            self.take("[")
            size = self.number()
            self.take("]")
        if size < 1:
            self.refuse("the size of a fixed_size_list is at least 1")
        return pa.list_(field, size)

    def _struct(self) -> pa.DataType:
        self.take("<")
        children: list[pa.Field] = []
        while not self.accept(">"):
            if children:
                self.take(",")
            words = [self.take()]
            while self.peek() not in (":", ""):
                words.append(self.take())
            self.take(":")
            name = json.loads(words[0]) if words[0].startswith('"') else " ".join(words)
            children.append(self._field_of(name))
        return pa.struct(children)

    def _map(self) -> pa.DataType:
        self.take("<")
        key = self._item().type
        self.take(",")
        item = self._item()
        ordered = self.accept(",") and bool(self.take("keys_sorted"))
        self.take(">")
        return pa.map_(key, pa.field("value", item.type, item.nullable), keys_sorted=ordered)

    def _dictionary(self) -> pa.DataType:
        self.take("<")
        if self.accept("values"):  # pyarrow's own form names its parts and puts the values first
            self.take("=")
            value = self.type()
            for word in (",", "indices", "="):
                self.take(word)
            index = self.type()
            for word in (",", "ordered", "="):
                self.take(word)
            ordered = bool(self.number())
        else:
            index = self.type()
            self.take(",")
            value = self.type()
            ordered = self.accept(",") and bool(self.take("ordered"))
        self.take(">")
        return pa.dictionary(index, value, ordered)

    def _timestamp(self) -> pa.DataType:
        self.take("[")
        unit = self.take()
        zone: str | None = None
        if self.accept(","):
            zone = self.take()
            if zone == "tz" and self.accept("="):
                zone = self.take()
            while self.peek() not in ("]", ""):
                zone += self.take()
        self.take("]")
        return pa.timestamp(unit, zone)


_NESTED = ("fixed_size_list", "struct", "map", "dictionary", "timestamp")
