"""Numbers distinct digests, a batch at a time: a hash table of numpy arrays, probed for all rows of a batch at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancegpu_sql.apply.digest import Lanes

Numbers = npt.NDArray[np.int64]

_FIRST_SLOTS = 1 << 12
_GROWTH = 4  # entries move to other slots each time that there is more room: seldom is cheaper than little
_FREE_SHARE = 4  # of so many slots at most one is taken: to look into a second one costs more than all else
_FREE = -1
_AT_ONCE = 1 << 16

_Halves = npt.NDArray[np.uint64]
_Held = npt.NDArray[np.int32]


class KeyTable:
    """Numbers distinct digests in the order in which they first come, beginning with 0; up to two billion of them."""

    def __init__(self) -> None:
        self._slots = np.full(_FIRST_SLOTS, _FREE, dtype=np.int32)
        self._first: _Halves = np.empty(0, dtype=np.uint64)
        self._second: _Halves = np.empty(0, dtype=np.uint64)
        self.entries = 0

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._slots.nbytes + self._first.nbytes + self._second.nbytes

    def number(self, keys: Lanes) -> tuple[Numbers, Numbers]:
        """Number each of `keys`, equal ones alike.

        Returns
        -------
        numbers
            One a key.
        new
            Where the last numbers, which were not there before, stand first in `keys`; ascending.
        """
        before, rows = self.entries, len(keys)
        self._make_room(rows)
        # Until it is known which are new, each key has the number that it would have if all were.
        first, second = self._first[before : before + rows], self._second[before : before + rows]
        first[:], second[:] = keys[:, 0], keys[:, 1]
        found, places = self._probe(first, second, before)
        numbers = found.astype(np.int64)
        is_new = numbers == np.arange(before, before + rows)
        new = np.flatnonzero(is_new)
        if len(new) < rows:
            final = np.cumsum(is_new) + (before - 1)
            of_new = numbers >= before
            numbers[of_new] = final[numbers[of_new] - before]
            self._slots[places[new]] = numbers[new]
            first[: len(new)], second[: len(new)] = first[new], second[new]
        self.entries = before + len(new)
        return numbers, new

    def keep(self, entries: int) -> None:
        """Forget all numbers from `entries` on."""
        if entries < self.entries:
            self.entries = entries
            self._number_again(len(self._slots))

    def _probe(self, first: _Halves, second: _Halves, before: int) -> tuple[_Held, Numbers]:
        """Find the slot of each key, or take a free one for the number that it would have.

        Returns, of each key, the number that stands in its slot, and that slot.
        """
        places = self._slots_of(first)
        own = np.arange(before, before + len(first), dtype=np.int32)
        found = self._take(places, own)
        # Whoever finds its own number is done: that is nearly all of new keys, which are compared with none.
        left = np.flatnonzero(found != own)
        while left.size:
            there = found.take(left)
            same = (self._first.take(there) == first.take(left)) & (self._second.take(there) == second.take(left))
            left = left.compress(~same)
            places[left] = slots = (places.take(left) + 1) & (len(self._slots) - 1)
            mine = own.take(left)
            found[left] = now = self._take(slots, mine)
            left = left.compress(now != mine)
        return found, places

    def _take(self, slots: Numbers, own: _Held) -> _Held:
        """Put numbers into those of the slots that are free; return what stands in each then."""
        found = self._slots.take(slots)
        # Of those that want one slot the first gets it, being written last; the others see whose it is.
        free = np.flatnonzero(found == _FREE)[::-1]
        if not free.size:
            return found
        if free.size == slots.size:
            self._slots[slots[::-1]] = own[::-1]
        else:
            self._slots[slots.take(free)] = own.take(free)
        return self._slots.take(slots)

    def _slots_of(self, first: _Halves) -> Numbers:
        return (first >> np.uint64(1) & np.uint64(len(self._slots) - 1)).view(np.int64)

    def _make_room(self, more: int) -> None:
        """Keep most of the slots free, whatever comes."""
        wanted = self.entries + more
        if wanted > len(self._first):
            room = max(wanted, 2 * len(self._first))
            self._first, self._second = (_grown(half, self.entries, room) for half in (self._first, self._second))
        slots = len(self._slots)
        while slots < _FREE_SHARE * wanted:
            slots *= _GROWTH
        if slots > len(self._slots):
            self._number_again(slots)

    def _number_again(self, slots: int) -> None:
        """Put the keys into so many slots, all free; distinct ones keep the numbers they had."""
        self._slots = np.full(slots, _FREE, dtype=np.int32)
        for start in range(0, self.entries, _AT_ONCE):
            end = min(start + _AT_ONCE, self.entries)
            self._probe(self._first[start:end], self._second[start:end], start)


def _grown(half: _Halves, entries: int, room: int) -> _Halves:
    grown = np.empty(room, dtype=np.uint64)
    grown[:entries] = half[:entries]
    return grown
