"""What a fragment says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from lancegpu_sql.tables.column_file import ColumnFile, ColumnIdentity
from lancegpu_sql.tables.fragments import DataFileRef, Fragment, fragment_from
from lancegpu_sql.tables.publishing import fits

FRAGMENT = Fragment(3, 10, 8, (DataFileRef("base", (0, 2)), DataFileRef("later", (5,))))
Y = ColumnIdentity(7, pa.int64(), "first")
FILE = ColumnFile(3, "mine", 10, 99, (Y,), (7,), (0,), (2, 2), frozenset({"base", "gone"}))
COLUMNS = [Y]


def test_fields_that_a_newer_file_took_over_are_not_listed() -> None:
    old = SimpleNamespace(_path="old", fields=[0, -2], file_size_bytes=None)
    metadata = SimpleNamespace(id=1, physical_rows=2, num_rows=2, files=[old], deletion_file=None)
    assert fragment_from(metadata).files == (DataFileRef("old", (0,)),)


def test_a_file_fits_the_fragment_it_was_written_for() -> None:
    assert fits(FILE, FRAGMENT, COLUMNS, lambda fragment: True)


def test_a_file_does_not_fit_when_the_fragment_is_gone() -> None:
    assert not fits(FILE, None, COLUMNS, lambda fragment: True)


def test_a_file_does_not_fit_another_fragment_of_the_same_number() -> None:
    stranger = Fragment(3, 10, 10, (DataFileRef("other", (0, 7)),))
    assert not fits(FILE, stranger, COLUMNS, lambda fragment: True)


def test_a_file_does_not_fit_another_count_of_rows() -> None:
    shorter = Fragment(3, 9, 9, FRAGMENT.files)
    assert not fits(FILE, shorter, COLUMNS, lambda fragment: True)


@pytest.mark.parametrize("columns", [[], [Y._replace(type=pa.int32())], [Y._replace(identity="second")]])
def test_a_file_does_not_fit_a_dropped_retyped_or_redeclared_column(columns: list[ColumnIdentity]) -> None:
    assert not fits(FILE, FRAGMENT, columns, lambda fragment: True)


def test_a_guard_has_the_last_word() -> None:
    assert not fits(FILE, FRAGMENT, COLUMNS, lambda fragment: False)
