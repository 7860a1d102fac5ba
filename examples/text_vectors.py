"""Vectors of texts, without a model to download: hashed trigrams, projected by one matrix product a batch.

A batch Function takes and gives Arrow arrays; a fixed-size list is what vector search wants.
"""

from __future__ import annotations

import tempfile
import zlib
from typing import Annotated

import numpy as np
import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import col, function

BUCKETS, SIZE = 2048, 64


@function(name="trigram_vector", batch_size=1024)
class TrigramVector:
    def __init__(self, seed: int = 0) -> None:  # once per worker; `seed` is a value of each binding
        self.projection = np.random.default_rng(seed).standard_normal((BUCKETS, SIZE), dtype=np.float32)

    def __call__(self, text: pa.StringArray) -> Annotated[pa.FixedSizeListArray, pa.list_(pa.float32(), SIZE)]:
        counts = np.zeros((len(text), BUCKETS), dtype=np.float32)
        for row, value in enumerate(text.to_pylist()):
            padded = f"  {(value or '').lower()} "
            for start in range(len(padded) - 2):
                counts[row, zlib.crc32(padded[start : start + 3].encode()) % BUCKETS] += 1
        vectors = counts @ self.projection
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), SIZE)


TEXTS = ["a red apple", "red apples", "a green apple", "the night train", "night trains to the sea", "a train at night"]

with tempfile.TemporaryDirectory() as folder, lg.connect(folder) as db:
    texts = db.create_table("texts", pa.table({"id": range(len(TEXTS)), "text": TEXTS}))
    texts.add_columns({"vector": TrigramVector(text=col("text"), seed=7)})
    texts.refresh_column("vector")
    nearest = db.sql("""
        SELECT a.text, arg_max(b.text, array_cosine_similarity(a.vector, b.vector)) AS nearest
        FROM texts a JOIN texts b ON a.id <> b.id GROUP BY a.id, a.text ORDER BY a.id
    """)
    for text, neighbour in nearest.fetchall():
        print(f"{text:25}{neighbour}")
