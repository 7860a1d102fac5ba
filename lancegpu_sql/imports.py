"""Many modules imported at once, without Python's collector in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Python's collector rest, if it is at work, and take for old what comes meanwhile.

    What imports make stays. Looking through all of it for garbage, again and again as it becomes more, takes a tenth of their
    time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()
