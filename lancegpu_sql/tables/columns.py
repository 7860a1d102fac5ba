"""How a computed column is declared: as JSON in the metadata of its Lance field, so that a copied table still knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pydantic import ValidationError

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.naming import PROOF_PREFIX

COMPUTED_KEY = "lancegpu:computed"
PROOF_TYPE = pa.binary(16)


def proof_name(column: str) -> str:
    """Return the name of the hidden column that proves this one (and its siblings)."""
    return f"{PROOF_PREFIX}{column}"


def declared_in(schema: pa.Schema) -> tuple[ComputedColumn, ...]:
    """Return the declarations that a schema carries.

    Raises
    ------
    InvalidData
        One of them cannot be read: another tool, or a newer release, wrote it.
    """
    found = []
    for field in schema:
        text = (field.metadata or {}).get(COMPUTED_KEY.encode())
        if text is None:
            continue
        try:
            declaration = ComputedColumn.model_validate_json(text)
        except ValidationError as exc:
            raise InvalidData(
                f"The declaration of computed column {field.name!r} cannot be read; a newer release may have made it.",
                column=field.name,
            ) from exc
        # The field may have been renamed since; its metadata has not.
        found.append(declaration.model_copy(update={"column": field.name}))
    return tuple(found)


def declaration_metadata(declaration: ComputedColumn) -> dict[str, str]:
    """Return the field metadata that declares a column."""
    return {COMPUTED_KEY: declaration.model_dump_json()}


def readers_of(field_id: int, computed: Iterable[ComputedColumn]) -> tuple[str, ...]:
    """Return the computed columns that take this field as an input."""
    return tuple(column.column for column in computed if field_id in column.inputs.values())


def proofs_left_over(dropped: Iterable[str], computed: Iterable[ComputedColumn]) -> tuple[str, ...]:
    """Return the proof columns that no column needs once `dropped` are gone."""
    going = set(dropped)
    needed = {column.proof_column for column in computed if column.column not in going}
    freed = {column.proof_column: None for column in computed if column.column in going}
    return tuple(proof for proof in freed if proof not in needed)


def declared_fields(columns: Iterable[tuple[pa.Field, ComputedColumn]], proof: str) -> list[pa.Field]:
    """Return the fields to add for columns of one binding: the values, nullable and declared, and their proof."""
    fields = [
        pa.field(field.name, field.type, metadata=merged(field.metadata, declaration_metadata(declaration)))
        for field, declaration in columns
    ]
    return [*fields, pa.field(proof, PROOF_TYPE)]


def merged(metadata: Mapping[bytes, bytes] | None, added: Mapping[str, str]) -> dict[str, str]:
    """Return field metadata as text, with `added` in it."""
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()} | dict(added)
