"""Whether a source has the rows that a refresh read, though compactions have put them into other fragments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lancegpu_sql.refresh.views.model import SourceState, fields_of, fragment_mark, whole_mark
from lancegpu_sql.tables import Fragment, Snapshot


def compactions_since(snapshot: Snapshot, columns: Sequence[str], noted: SourceState) -> tuple[int, ...]:
    """Return the versions of the compactions that alone lie between a source and what the last refresh read of it.

    They are undone in thought, the newest first: where fragments that one wrote are still there, those that it made them of
    stand for the same rows. No row is read. None of them: the rows are others, or that is not known.
    """
    fields = fields_of(snapshot, columns)

    def marks(fragments: Iterable[Fragment]) -> Counter[bytes]:
        return Counter(fragment_mark(one, fields, b"") for one in fragments if one.live_rows)

    present, undone = marks(snapshot.fragments), list[int]()
    for rewrite in snapshot.history.rewrites_since(noted.version):
        new = marks(rewrite.new)
        if new <= present:
            present = present - new + marks(rewrite.old)
            undone.append(rewrite.version)
            if whole_mark(present.elements()) == noted.mark:
                return tuple(dict.fromkeys(undone))
    return ()
