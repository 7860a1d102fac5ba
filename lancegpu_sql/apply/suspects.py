"""Which devices are to be kept off: those on which calls failed that others computed, and those still under suspicion. Pure."""

from __future__ import annotations


class SuspectDevices:
    """Devices by the places that a placement can keep off: a device of this machine, or a node of a cluster."""

    def __init__(self) -> None:
        self._suspected: set[str] = set()
        self._guilty: set[str] = set()

    @property
    def avoided(self) -> frozenset[str]:
        """Where no further worker should be started."""
        return frozenset(self._suspected | self._guilty)

    def failed(self, places: frozenset[str]) -> None:
        """A call failed there, as calls fail when a device does."""
        self._suspected |= places - self._guilty

    def computed_elsewhere(self, places: frozenset[str]) -> frozenset[str]:
        """Another device computed what failed there; return the places that are guilty from now on."""
        found = places - self._guilty
        self._guilty |= found
        self._suspected -= found
        return found

    def cleared(self, places: frozenset[str]) -> None:
        """What failed there fails everywhere: the rows are at fault."""
        self._suspected -= places
