"""The set of all of a fragment's rows, as Lance reads it."""

from __future__ import annotations

import pytest
from lance.bitmap import Bitmap

from lancegpu_sql.tables.row_offsets import all_offsets


@pytest.mark.parametrize("rows", [1, 65_535, 65_536, 65_537, 3 * 65_536, 4 * 65_536, 1_000_000, 20 * 65_536 + 5])
def test_lance_reads_the_offsets_of_so_many_rows(rows: int) -> None:
    read = Bitmap._from_bytes(all_offsets(rows))
    assert (len(read), 0 in read, rows - 1 in read, rows in read) == (rows, True, True, False)
