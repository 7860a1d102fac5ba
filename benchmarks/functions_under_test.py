"""The Functions whose refresh is measured; the plain loop calls the very same ones."""

from __future__ import annotations

from typing import Annotated
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql import function

Vector = Annotated[pa.FixedSizeListArray, pa.list_(pa.float32(), 384)]


@function(name="bench_length")
def length(text: pa.StringArray) -> pa.Int32Array:
    """The least a Function can do: it shows what everything around it costs."""
    return pc.utf8_length(text)


@function(name="bench_normalise")
def normalise(text: pa.StringArray) -> pa.StringArray:
    """A cheap Function as people write them: lower case, one blank between words, none at the ends."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(text), r"\s+", " "))


@function(name="bench_tidy")
def tidy(text: pa.StringArray) -> pa.StringArray:
    """What `normalise` does, in plain Python: unlike Arrow's kernels it holds the interpreter lock."""
    return pa.array([" ".join(each.lower().split()) for each in text.to_pylist()], pa.string())


@function(name="bench_embed_subwords")
class EmbedSubwords:
    """Counts of the hashed letter trigrams of each word, counted in plain Python, projected to 384 dimensions."""

    def __init__(self) -> None:
        self.weights = np.random.default_rng(7).standard_normal((256, 384), dtype=np.float32)

    def __call__(self, text: pa.StringArray) -> Vector:
        counts = np.empty((len(text), 256), dtype=np.float32)
        for row, each in enumerate(text.to_pylist()):
            pieces = [word[at : at + 3] for word in each.split() for at in range(max(1, len(word) - 2))]
            buckets = np.array([crc32(piece.encode()) % 256 for piece in pieces], dtype=np.intp)
            counts[row] = np.bincount(buckets, minlength=256)
        vectors = counts @ self.weights
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 384)


@function(name="bench_embed")
class Embed:
    """Counts of hashed byte trigrams, projected to 384 dimensions by one matrix product."""

    def __init__(self) -> None:
        self.weights = np.random.default_rng(7).standard_normal((2048, 384), dtype=np.float32)

    def __call__(self, text: pa.StringArray) -> Vector:
        counts = np.zeros((len(text), 2048), dtype=np.float32)
        data = np.frombuffer(text.buffers()[2], dtype=np.uint8).astype(np.uint32)
        offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        data = data[first:last]
        trigrams = (data[:-2] * 961 + data[1:-1] * 31 + data[2:]) % 2048
        rows = np.repeat(np.arange(len(text)), np.diff(offsets))[: len(trigrams)]
        np.add.at(counts, (rows, trigrams), 1.0)
        vectors = counts @ self.weights
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 384)
