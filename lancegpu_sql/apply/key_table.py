"""Numbers distinct digests, a batch at a time: a hash table of numpy arrays, probed for all rows of a batch at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancegpu_sql.apply.digest import Lanes

Numbers = npt.NDArray[np.int64]

ENTRY_BYTES = 48
"""Of one entry, at most: its digest and its slots, between one and two thirds of which are free."""

_FIRST_SLOTS = 1 << 10
_FREE = -1


class KeyTable:
    """Numbers distinct digests in the order in which they first come, beginning with 0."""

    def __init__(self) -> None:
        self._slots: Numbers = np.full(_FIRST_SLOTS, _FREE, dtype=np.int64)
        self._keys: Lanes = np.empty((0, 2), dtype=np.uint64)
        self.entries = 0

    def number(self, keys: Lanes) -> tuple[Numbers, Numbers]:
        """Number each of `keys`, equal ones alike.

        Returns
        -------
        numbers
            One a key.
        new
            Where the last numbers, which were not there before, stand first in `keys`; ascending.
        """
        self._make_room(len(keys))
        before = self.entries
        numbers, new, places = self._probe(keys)
        order = np.argsort(new, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(before, before + len(new))
        self._slots[places] = rank
        of_new = numbers >= before
        numbers[of_new] = rank[numbers[of_new] - before]
        new = new[order]
        self._keys[before : before + len(new)] = keys[new]
        self.entries = before + len(new)
        return numbers, new

    def keep(self, entries: int) -> None:
        """Forget all numbers from `entries` on."""
        if entries < self.entries:
            self._keys = self._keys[:entries]
            self._slots = np.full(len(self._slots), _FREE, dtype=np.int64)
            self._number_again(entries)

    def _probe(self, keys: Lanes) -> tuple[Numbers, Numbers, Numbers]:
        """Find each key's slot, or take a free one for it.

        Returns the keys' numbers, those of new ones in no order yet, and of each new one a position in `keys` and its slot.
        """
        before = self.entries
        numbers = np.full(len(keys), _FREE, dtype=np.int64)
        slots = self._slot(keys)
        new, places = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        left = np.arange(len(keys))
        while left.size:
            found = self._slots[slots[left]]
            wanting = left[found == _FREE]
            # Of those that want one slot the first gets it, being written last; the others look at it again.
            self._slots[slots[wanting[::-1]]] = wanting[::-1]
            winners = wanting[self._slots[slots[wanting]] == wanting]
            numbers[winners] = fresh = np.arange(before + len(new), before + len(new) + len(winners))
            self._slots[slots[winners]] = fresh
            new, places = np.concatenate([new, winners]), np.concatenate([places, slots[winners]])
            left = left[numbers[left] == _FREE]
            found = self._slots[slots[left]]
            old = found < before
            same = np.empty(len(left), dtype=bool)
            same[old] = _equal(self._keys, found[old], keys, left[old])
            same[~old] = _equal(keys, new[found[~old] - before], keys, left[~old])
            numbers[left[same]] = found[same]
            left = left[~same]
            slots[left] = (slots[left] + 1) & (len(self._slots) - 1)
        return numbers, new, places

    def _slot(self, keys: Lanes) -> Numbers:
        return (keys[:, 0] >> np.uint64(1) & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _make_room(self, more: int) -> None:
        """Keep half of the slots free, whatever comes."""
        wanted = self.entries + more
        if wanted > len(self._keys):
            keys = np.empty((max(wanted, 2 * len(self._keys)), 2), dtype=np.uint64)
            keys[: self.entries] = self._keys[: self.entries]
            self._keys = keys
        if 2 * wanted <= len(self._slots):
            return
        self._slots = np.full(1 << (2 * wanted - 1).bit_length(), _FREE, dtype=np.int64)
        self._number_again(self.entries)

    def _number_again(self, entries: int) -> None:
        """Put the first keys into slots that are all free; distinct ones get the numbers they had."""
        self.entries = 0
        _, new, places = self._probe(self._keys[:entries])
        self._slots[places] = new
        self.entries = entries


def _equal(some: Lanes, at: Numbers, others: Lanes, other_at: Numbers) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = some[at, 0] == others[other_at, 0]
    equal &= some[at, 1] == others[other_at, 1]
    return equal
