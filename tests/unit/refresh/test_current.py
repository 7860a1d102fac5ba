"""A row is fresh, stale, failed or never computed: exactly one of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancegpu_sql.apply.digest import DIGEST_TYPE, Lanes, binding_key, row_digests, to_array
from lancegpu_sql.refresh.current import RowCounts, states

KEY = binding_key("aa", {})


def digests(*texts: str | None) -> Lanes:
    return row_digests(pa.record_batch([pa.array(texts, pa.string())], names=["x"]), KEY)


def test_rows_are_told_apart_by_their_stored_digests() -> None:
    present = digests("same", "changed", "broken", "new")
    kept = to_array(digests("same", "before", "broken", "new")).to_pylist()
    kept[2] = bytes([kept[2][0] | 1]) + kept[2][1:]
    kept[3] = None
    found = states(pa.array(kept, DIGEST_TYPE), present)
    assert found.fresh.tolist() == [True, False, False, False]
    assert found.stale.tolist() == [False, True, False, False]
    assert found.failed.tolist() == [False, False, True, False]
    assert found.never.tolist() == [False, False, False, True]
    assert found.counts() == RowCounts(fresh=1, stale=1, failed=1, never=1)


def test_a_failed_row_whose_input_changed_is_stale() -> None:
    failed = digests("before")
    failed[:, 0] |= np.uint64(1)
    assert states(to_array(failed), digests("after")).counts() == RowCounts(stale=1)


def test_a_null_input_that_was_computed_is_fresh() -> None:
    assert states(to_array(digests(None)), digests(None)).counts() == RowCounts(fresh=1)


def test_counts_add_up() -> None:
    total = RowCounts(1, 2, 3, 4) + RowCounts(10, 20, 30, 40)
    assert total == RowCounts(11, 22, 33, 44)
    assert total.remaining == 22 + 33 + 44
