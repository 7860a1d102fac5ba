"""Two sides of a benchmark that take turns, and how they compare."""

from __future__ import annotations

import statistics

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def ratio(found: dict[str, list[float]], ours: str, other: str) -> str:
    """Return the ratio of medians, and how far single rounds lie apart."""
    pairs = [mine / theirs for mine, theirs in zip(found[ours], found[other], strict=True)]
    median = statistics.median(found[ours]) / statistics.median(found[other])
    return f"{median:5.2f} × (rounds {min(pairs):.2f}–{max(pairs):.2f})"
