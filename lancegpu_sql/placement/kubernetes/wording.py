"""Small pieces of sentences."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(message: str) -> str:
    """Return a foreign message as a quotation of bearable length."""
    flat = " ".join(message.split())
    return f"“{flat[:300]}{'…' if len(flat) > 300 else ''}”"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names one after another, the first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
