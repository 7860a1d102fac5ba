"""Declarations in field metadata."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.columns import (
    declared_fields,
    declared_in,
    identity_of,
    proof_name,
    proofs_left_over,
    readers_of,
)


def declaration(column: str, proof: str = "_lancegpu_proof_vec") -> ComputedColumn:
    return ComputedColumn(
        column=column, function="embed", version=2, digest="0" * 32, inputs={"text": 7}, proof_column=proof
    )


def test_a_declaration_comes_back_from_the_schema_as_it_went_in() -> None:
    one = declaration("vec")
    schema = pa.schema(declared_fields([(pa.field("vec", pa.float32()), one)], proof_name("vec")))
    assert declared_in(schema) == (one,)


def test_a_declared_field_is_nullable_and_keeps_its_own_metadata() -> None:
    field = pa.field("vec", pa.float32(), nullable=False, metadata={"unit": "m"})
    declared, proof = declared_fields([(field, declaration("vec"))], proof_name("vec"))
    assert declared.nullable
    assert declared.metadata[b"unit"] == b"m"
    assert proof == pa.field("_lancegpu_proof_vec", pa.binary(16))


def test_a_renamed_column_is_known_by_its_present_name() -> None:
    fields = declared_fields([(pa.field("vec", pa.float32()), declaration("vec"))], proof_name("vec"))
    (found,) = declared_in(pa.schema([fields[0].with_name("vector"), fields[1]]))
    assert (found.column, found.proof_column) == ("vector", "_lancegpu_proof_vec")


def test_a_declaration_that_was_copied_without_its_proof_does_not_count() -> None:
    fields = declared_fields([(pa.field("vec", pa.float32()), declaration("vec"))], proof_name("vec"))
    assert declared_in(pa.schema(fields[:1])) == ()


def test_columns_declared_at_different_times_are_told_apart() -> None:
    first, second = (declared_fields([(pa.field("y", pa.int8()), declaration("y"))], "p")[0] for _ in range(2))
    assert identity_of(first) != identity_of(second)
    assert identity_of(pa.field("y", pa.int8())) is None


def test_a_declaration_that_cannot_be_read_names_its_column() -> None:
    schema = pa.schema([pa.field("vec", pa.float32(), metadata={"lancegpu:computed": '{"column": "vec"}'})])
    with pytest.raises(InvalidData, match="'vec'"):
        declared_in(schema)


def test_readers_of_a_field_are_found_by_its_id() -> None:
    assert readers_of(7, [declaration("vec")]) == ("vec",)
    assert readers_of(8, [declaration("vec")]) == ()


def test_a_shared_proof_goes_with_the_last_column_that_needs_it() -> None:
    siblings = [declaration("width"), declaration("height")]
    assert proofs_left_over(["width"], siblings) == ()
    assert proofs_left_over(["width", "height"], siblings) == ("_lancegpu_proof_vec",)
