"""Whether DuckDB reads two texts as the same query: a query is cut only if sqlglot says what its user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLACES = frozenset(
    {"query_location", "query_location_length", "is_operator", "is_implicit", "is_legacy_function_call"}
)
# Other names of functions, which sqlglot exchanges; tests/unit/sql/blocks/test_readings.py compares them with DuckDB's own.
_ALIASES = """
    !__postfix: factorial
    %: mod
    *: multiply
    **: ^ pow power
    +: add
    -: subtract
    //: divide
    @: abs
    ^@: starts_with
    arg_max: argmax max_by
    arg_min: argmin min_by
    array_inner_product: array_dot_product
    array_negative_inner_product: array_negative_dot_product
    avg: mean
    bin: to_binary
    ceil: ceiling
    count_if: countif
    dense_rank: rank_dense
    first: arbitrary
    format_bytes: formatReadableSize
    get_current_timestamp: now transaction_timestamp
    greatest_common_divisor: gcd
    hamming: mismatches
    hex: to_hex
    instr: position strpos
    kahan_sum: fsum sumkahan
    least_common_multiple: lcm
    length: char_length character_length len
    levenshtein: editdist3
    list: array_agg
    list_aggregate: aggregate array_aggr array_aggregate list_aggr
    list_concat: array_cat array_concat list_cat
    list_contains: array_contains array_has list_has
    list_cosine_distance: <=>
    list_distance: <->
    list_distinct: array_distinct
    list_extract: list_element
    list_filter: array_filter filter
    list_grade_up: array_grade_up grade_up
    list_has_all: <@ @> array_has_all
    list_has_any: array_has_any
    list_inner_product: list_dot_product
    list_intersect: array_intersect
    list_negative_inner_product: list_negative_dot_product
    list_position: array_indexof array_position list_indexof
    list_reduce: array_reduce reduce
    list_resize: array_resize
    list_reverse_sort: array_reverse_sort
    list_select: array_select
    list_slice: array_slice
    list_sort: array_sort
    list_transform: apply array_apply array_transform list_apply
    list_unique: array_unique
    list_value: list_pack
    list_where: array_where
    list_zip: array_zip
    lower: lcase
    map_extract: element_at
    quantile_disc: quantile
    round_even: roundbankers
    st_astext: st_aswkt
    st_aswkb: st_asbinary
    stddev_samp: stddev
    string_agg: group_concat listagg
    string_split: split str_split string_to_array
    string_split_regex: regexp_split_to_array str_split_regex
    struct_contains: struct_has
    struct_position: struct_indexof
    substring: substr
    suffix: ends_with
    to_base64: base64
    unbin: from_binary
    unhex: from_hex
    unicode: ord
    upper: ucase
    uuid: gen_random_uuid
    var_samp: variance
"""
FUNCTION_ALIASES = {
    alias: line.split(": ")[0].strip()
    for line in _ALIASES.strip().splitlines()
    for alias in line.split(": ")[1].split()
}
_TYPES = {"INT128": "HUGEINT", "TEXT": "VARCHAR", "STRING": "VARCHAR", "BPCHAR": "VARCHAR", "CHAR": "VARCHAR"}
_UNITS = "centuries decades days hours microseconds millennia milliseconds minutes months quarters seconds weeks years"
_INTERVALS = frozenset(f"to_{unit}" for unit in _UNITS.split())
_ZERO = {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": {"kind": "INTEGER", "text": "0"}}


def same_reading(one: object, other: object) -> bool:
    """Whether two of DuckDB's parse trees mean the same.

    Places in the text are left aside, and a few forms that sqlglot writes for others: ``NOT a IS NULL``, CASE for
    ``if()``, a join ON TRUE, another name of a function.
    """
    return _plain(one) == _plain(other)


def _plain(node: object, *, in_interval: bool = False) -> object:
    if isinstance(node, list):
        return [_plain(part, in_interval=in_interval) for part in node]
    if not isinstance(node, Mapping):
        return node
    kind = node.get("class")
    if in_interval and kind == "CONSTANT":
        return {"class": kind, "text": node.get("literal", {}).get("text")}
    in_interval = in_interval or (kind == "FUNCTION" and node.get("function_name") in _INTERVALS)
    plain: dict[str, Any] = {
        key: _plain(value, in_interval=in_interval) for key, value in node.items() if key not in _PLACES
    }
    if kind == "FUNCTION":
        return _function(plain)
    if kind == "COLUMN_REF":
        return {**plain, "column_names": [str(name).lower() for name in plain.get("column_names", [])]}
    if kind == "TYPE":
        name = str(plain.get("type_name", "")).upper()
        return {**plain, "type_name": _TYPES.get(name, name), "qualified_name": None}
    if kind == "OPERATOR" and plain.get("type") == "OPERATOR_NOT":
        return _negation(plain)
    if node.get("type") == "JOIN" and _is_true(plain.get("condition")) and plain.get("join_type") == "INNER":
        return {**plain, "condition": None, "ref_type": "CROSS"}
    return plain


def _function(plain: dict[str, Any]) -> dict[str, Any]:
    path = plain.get("qualified_name", {}).get("path", [])
    if len(path) > 1:
        return plain
    name = str(plain.get("function_name", "")).lower()
    arguments = plain.get("arguments", [])
    expressions = [argument.get("expression") for argument in arguments]
    if name == "if" and len(arguments) == 3:
        test, then, otherwise = expressions
        checks = [{"when_expr": test, "then_expr": then}]
        return {
            "class": "CASE",
            "type": "CASE_EXPR",
            "alias": plain.get("alias"),
            "case_checks": checks,
            "else_expr": otherwise,
        }
    if name == "range" and len(arguments) == 1:
        arguments = [{"name": "", "expression": _ZERO}, *arguments]
    return {**plain, "function_name": FUNCTION_ALIASES.get(name, name), "arguments": arguments, "qualified_name": None}


def _negation(plain: dict[str, Any]) -> dict[str, Any]:
    (child,) = plain.get("children") or [None]
    if isinstance(child, dict) and child.get("type") == "OPERATOR_IS_NULL":
        return {**child, "type": "OPERATOR_IS_NOT_NULL", "alias": plain.get("alias")}
    return plain


def _is_true(node: object) -> bool:
    return (
        isinstance(node, dict)
        and node.get("class") == "CONSTANT"
        and node.get("literal") == {"kind": "BOOLEAN", "text": "true"}
    )
