"""Is this value still current? The digest of a row's inputs, computed a column at a time.

A computed value is stored beside the digest of what it was computed from: the Function version, the bound values and the
row's inputs. Digests are 16 bytes, the two 64-bit halves of XXH3-128 for variable-length values and of two differently
seeded SplitMix64 mixers for values of eight bytes or less. They prove that inputs are unchanged; they are no defence
against someone who forges inputs that collide.

Canonical form: nulls, empty strings and empty lists differ from each other; every NaN is one NaN; -0.0 and 0.0 differ,
because a Function can tell them apart. The lowest bit of the first half is not part of the digest: it marks a row that
was tried and failed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

DIGEST_TYPE = pa.binary(16)

Lanes = npt.NDArray[np.uint64]
"""An array of shape (rows, 2): the two halves of each row's digest."""

# Odd constants of SplitMix64 (Steele, Lea, Flood 2014) and, for the second half, of Murmur3's 64-bit finaliser family
# ("Mix13" by David Stafford): two mixers that agree on no input by design.
_GOLDEN = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)
_MIX_A = np.array([0xBF58476D1CE4E5B9, 0xFF51AFD7ED558CCD], dtype=np.uint64)
_MIX_B = np.array([0x94D049BB133111EB, 0xC4CEB9FE1A85EC53], dtype=np.uint64)
_NULL = np.array([0x6E756C6C206F6E65, 0x6E756C6C2074776F], dtype=np.uint64)  # "null one", "null two"

_FAILED_BIT = np.uint64(1)
_DIGEST_MASK = ~_FAILED_BIT


def binding_key(function_digest: str, bound: Mapping[str, Any]) -> bytes:
    """Return 16 bytes that stand for everything a value depends on besides its row's inputs.

    A Function's digest covers its code and its types; `bound` holds the JSON values of its class's ``__init__``.
    """
    text = json.dumps([function_digest, bound], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"lancegpu-binding").digest()


def row_digests(arguments: pa.RecordBatch, key: bytes) -> Lanes:
    """Digest each row of `arguments`, whose columns are a binding's parameters in order.

    Parameters
    ----------
    arguments
        One column per parameter, already of the parameter's Arrow type.
    key
        The 16 bytes of `binding_key`.

    Returns
    -------
    numpy.ndarray
        uint64 of shape (rows, 2), the failed bit clear. `to_array` makes it a `fixed_size_binary(16)`.
    """
    lanes = _combine([_lanes(column) for column in arguments.columns], arguments.num_rows)
    lanes ^= np.frombuffer(key, dtype="<u8")
    lanes[:, 0] &= _DIGEST_MASK
    return lanes


def to_array(lanes: Lanes) -> pa.FixedSizeBinaryArray:
    """Return digests as a `fixed_size_binary(16)` array without nulls; no bytes are copied."""
    contiguous = np.ascontiguousarray(lanes, dtype="<u8")
    return pa.FixedSizeBinaryArray.from_buffers(DIGEST_TYPE, len(contiguous), [None, pa.py_buffer(contiguous)])


def from_array(array: pa.Array) -> tuple[Lanes, npt.NDArray[np.bool_]]:
    """Return stored digests and where there is one; the halves of a null mean nothing."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros((len(array), 2), dtype=np.uint64), np.zeros(len(array), dtype=bool)
    lanes = np.frombuffer(data, dtype="<u8", count=2 * (array.offset + len(array))).reshape(-1, 2)[array.offset :]
    return lanes, _validity(array)


def is_failed(lanes: Lanes) -> npt.NDArray[np.bool_]:
    """Tell which digests mark a row that was tried and failed."""
    return (lanes[:, 0] & _FAILED_BIT).astype(bool)


def marked_failed(array: pa.FixedSizeBinaryArray, rows: Sequence[int]) -> pa.FixedSizeBinaryArray:
    """Return digests without nulls, those of some rows marked as tried and failed."""
    lanes = from_array(array)[0].copy()
    lanes[np.asarray(rows, dtype=np.intp), 0] |= _FAILED_BIT
    return to_array(lanes)


def same(stored: Lanes, present: Lanes) -> npt.NDArray[np.bool_]:
    """Tell where stored digests are those of the present inputs, whether the row failed or not."""
    equal: npt.NDArray[np.bool_] = ((stored[:, 0] & _DIGEST_MASK) == present[:, 0]) & (stored[:, 1] == present[:, 1])
    return equal


def _validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    if array.null_count == 0:
        return np.ones(len(array), dtype=bool)
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _mix(values: Lanes) -> Lanes:
    """Scramble in place: SplitMix64's output function, each half with constants of its own."""
    values ^= values >> np.uint64(30)
    values *= _MIX_A
    values ^= values >> np.uint64(27)
    values *= _MIX_B
    values ^= values >> np.uint64(31)
    return values


def _combine(parts: Sequence[Lanes], rows: int) -> Lanes:
    """Fold the digests of several columns into one, so that their order counts."""
    if not parts:
        return np.zeros((rows, 2), dtype=np.uint64)
    folded = parts[0]
    for part in parts[1:]:
        folded = folded * _GOLDEN
        folded += part
        folded = _mix(folded)
    return folded


def _lanes(array: pa.Array | pa.ChunkedArray) -> Lanes:
    """Digest each value of an array of any Arrow type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _lanes(array.storage)
    if pa.types.is_dictionary(kind):
        return _lanes(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _lanes(pc.run_end_decode(array))
    if pa.types.is_null(kind):
        return np.tile(_NULL, (len(array), 1))
    lanes = _valid_lanes(array)
    if array.null_count:
        lanes[~_validity(array)] = _NULL
    return lanes


def _valid_lanes(array: pa.Array) -> Lanes:
    """Digest each value, whatever stands where there is none."""
    kind = array.type
    if _is_text_or_bytes(kind):
        return _of_objects(array)
    if pa.types.is_struct(kind):
        return _of_struct(array)
    if pa.types.is_fixed_size_list(kind):
        return _of_fixed_size_lists(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _of_lists(array)
    words = _as_words(array)
    if words is not None:
        return _mix(words[:, None] + _GOLDEN)
    width = kind.bit_width // 8
    return _of_rows(array.buffers()[1], array.offset * width, width, len(array))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return any(is_kind(kind) for is_kind in (*texts, types.is_binary, types.is_large_binary, types.is_binary_view))


def _of_objects(array: pa.Array) -> Lanes:
    if not pa.types.is_binary(array.type):
        array = array.cast(pa.large_binary() if _may_exceed_offsets(array) else pa.binary())
    if array.null_count:
        array = array.fill_null(b"")
    values = array.to_numpy(zero_copy_only=False)
    return np.frombuffer(bytearray().join(map(xxh3_128_digest, values)), dtype="<u8").reshape(-1, 2)


def _may_exceed_offsets(array: pa.Array) -> bool:
    kind = array.type
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)) and array.nbytes >= 2**31


def _as_words(array: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return values of eight bytes or less as uint64, floats in canonical form; None for wider ones."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)).astype(np.uint64)
    if pa.types.is_fixed_size_binary(kind) or kind.bit_width > 64:
        return None
    width = kind.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=np.uint64)
    raw = np.frombuffer(buffer, dtype=f"<u{width}", count=array.offset + len(array))[array.offset :]
    if pa.types.is_floating(kind):
        raw = _canonical_floats(raw.view(f"<f{width}")).view(f"<u{width}")
    return raw.astype(np.uint64)


def _canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    missing = np.isnan(values)
    return np.where(missing, np.array(np.nan, dtype=values.dtype), values) if missing.any() else values


def _of_rows(buffer: Any, start_bytes: int, width_bytes: int, rows: int) -> Lanes:
    """Digest `rows` runs of `width_bytes` that stand one behind the other."""
    if width_bytes == 0 or buffer is None:
        return np.tile(_GOLDEN, (rows, 1))
    view = memoryview(buffer).cast("B")[start_bytes : start_bytes + rows * width_bytes]
    digests = bytearray().join(
        xxh3_128_digest(view[at : at + width_bytes]) for at in range(0, rows * width_bytes, width_bytes)
    )
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)


def _of_struct(array: pa.StructArray) -> Lanes:
    fields = [_lanes(array.field(at)) for at in range(array.type.num_fields)]
    return _mix(_combine(fields, len(array)) + _GOLDEN)


def _of_fixed_size_lists(array: pa.FixedSizeListArray) -> Lanes:
    """Digest each list over the bytes of its elements, or over their digests where some are null or not plain numbers."""
    size = array.type.list_size
    values = array.values[array.offset * size : (array.offset + len(array)) * size]
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or values.buffers()[1] is None:
        return _over_elements(values, size, len(array))
    width = kind.bit_width // 8
    letter = "f" if pa.types.is_floating(kind) else "u"
    raw = np.frombuffer(values.buffers()[1], dtype=f"<{letter}{width}", count=values.offset + len(values))
    raw = raw[values.offset :]
    if letter == "f":
        raw = np.ascontiguousarray(_canonical_floats(raw))
    lanes = _of_rows(raw.view(np.uint8).data, 0, size * width, len(array))
    if values.null_count and size:
        holed = ~_validity(values).reshape(-1, size).all(axis=1)
        lanes[holed] = _over_elements(values, size, len(array))[holed]
    return lanes


def _over_elements(values: pa.Array, size: int, rows: int) -> Lanes:
    elements = np.ascontiguousarray(_lanes(values))
    return _of_rows(elements.view(np.uint8).reshape(-1).data, 0, size * 16, rows)


def _of_lists(array: pa.Array) -> Lanes:
    """Digest each list over the digests of its elements."""
    if pa.types.is_map(array.type):
        width = np.int32
        offsets = np.frombuffer(array.buffers()[1], dtype=width, count=array.offset + len(array) + 1)[array.offset :]
        elements = _combine([_lanes(array.keys), _lanes(array.items)], len(array.keys))
    else:
        offsets = array.offsets.to_numpy()
        elements = _lanes(array.values)
    view = np.ascontiguousarray(elements).view(np.uint8).reshape(-1).data
    bounds = (offsets.astype(np.int64) * 16).tolist()
    digests = bytearray().join(xxh3_128_digest(view[start:end]) for start, end in pairwise(bounds))
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
