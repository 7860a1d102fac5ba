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

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.type_reader import PLAIN_TYPES, TypeReader

_TEXT_OF_PLAIN = {arrow_type: text for text, arrow_type in PLAIN_TYPES.items()}
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
    if types.is_list_view(arrow_type) or types.is_large_list_view(arrow_type):
        raise InvalidFunction(
            f"Functions declare no list views: use list<{arrow_type.value_type}>, whose views are cast."
        )
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
    reader = TypeReader(text)
    arrow_type = reader.type()
    reader.end()
    check_supported(arrow_type)
    return arrow_type
