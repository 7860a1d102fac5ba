"""Arrow types as text, in Arrow's words, both ways.

::

    int64   utf8   bool   float32   binary   date32   timestamp[us]   timestamp[us, UTC]   decimal128(10, 2)
    fixed_size_binary[16]   list<utf8>   fixed_size_list<float32, 384>   map<utf8, int64>   dictionary<int32, utf8>
    struct<label: utf8, score: float64 not null>   struct<"two words": utf8>

What pyarrow's own `str()` prints (`string`, `double`, `list<item: int64>`, …) is understood as well.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction

_PLAIN: dict[str, pa.DataType] = {
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
_TEXT_OF_PLAIN = {arrow_type: text for text, arrow_type in _PLAIN.items()}
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
_PLAIN_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format_type(arrow_type: pa.DataType) -> str:
    """Give a type's text.

    Raises
    ------
    InvalidFunction
        The type is an extension type, or one that no Lance column can have.
    """
    check_supported(arrow_type)
    if arrow_type in _TEXT_OF_PLAIN:
        return _TEXT_OF_PLAIN[arrow_type]
    types = pa.types
    if types.is_fixed_size_list(arrow_type):
        return f"fixed_size_list<{_format_item(arrow_type.value_field)}, {arrow_type.list_size}>"
    for name, is_kind in _LIST_KINDS.items():
        if is_kind(arrow_type):
            return f"{name}<{_format_item(arrow_type.value_field)}>"
    if types.is_struct(arrow_type):
        return f"struct<{', '.join(map(_format_field, arrow_type))}>"
    if types.is_map(arrow_type):
        item = _format_item(arrow_type.item_field)
        return f"map<{format_type(arrow_type.key_type)}, {item}{', keys_sorted' if arrow_type.keys_sorted else ''}>"
    if types.is_dictionary(arrow_type):
        index, value = format_type(arrow_type.index_type), format_type(arrow_type.value_type)
        return f"dictionary<{index}, {value}{', ordered' if arrow_type.ordered else ''}>"
    if types.is_timestamp(arrow_type):
        return f"timestamp[{arrow_type.unit}{f', {arrow_type.tz}' if arrow_type.tz else ''}]"
    if types.is_time(arrow_type):
        return f"time{arrow_type.bit_width}[{arrow_type.unit}]"
    if types.is_duration(arrow_type):
        return f"duration[{arrow_type.unit}]"
    if types.is_decimal(arrow_type):
        return f"decimal{arrow_type.bit_width}({arrow_type.precision}, {arrow_type.scale})"
    return f"fixed_size_binary[{arrow_type.byte_width}]"


_LIST_KINDS = {
    "list": pa.types.is_list,
    "large_list": pa.types.is_large_list,
    "list_view": pa.types.is_list_view,
    "large_list_view": pa.types.is_large_list_view,
}


def _format_item(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " not null")


def _format_field(field: pa.Field) -> str:
    name = field.name if _PLAIN_FIELD_NAME.fullmatch(field.name) else json.dumps(field.name, ensure_ascii=False)
    return f"{name}: {_format_item(field)}"


def check_supported(arrow_type: pa.DataType) -> None:
    """Refuse, at any depth, a type that no Function can take or give.

    Raises
    ------
    InvalidFunction
        With the type to write instead, where there is one.
    """
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        raise InvalidFunction(
            f"Functions take and give no extension types, such as {arrow_type.extension_name}: "
            f"use its storage type {arrow_type.storage_type}."
        )
    if types.is_run_end_encoded(arrow_type):
        raise InvalidFunction(f"Functions take and give no run-end encoded arrays: use {arrow_type.value_type}.")
    if types.is_union(arrow_type) or types.is_null(arrow_type) or types.is_interval(arrow_type):
        raise InvalidFunction(f"Functions take and give no {arrow_type}: a Lance column cannot have that type.")
    if types.is_dictionary(arrow_type):
        check_supported(arrow_type.value_type)
    elif types.is_map(arrow_type):
        check_supported(arrow_type.key_type)
        check_supported(arrow_type.item_type)
    elif types.is_nested(arrow_type):
        for index in range(arrow_type.num_fields):
            check_supported(arrow_type.field(index).type)


def parse_type(text: str) -> pa.DataType:
    """Read a type's text.

    Parameters
    ----------
    text
        As `format_type` writes it, or as pyarrow's `str()` does.

    Raises
    ------
    InvalidFunction
        It is no Arrow type; the message names the Arrow word for one of SQL's.
    """
    reader = _Reader(text)
    arrow_type = reader.type()
    reader.end()
    check_supported(arrow_type)
    return arrow_type


class _Reader:
    """A descent over the text's tokens."""

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
            return _PLAIN[word]
        word = _ALIASES.get(word, word)
        if word in _PLAIN:
            return _PLAIN[word]
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
