"""How a computed column is declared: as JSON in the metadata of its Lance field, so that a copied table still knows it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pydantic import ValidationError

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.naming import PROOF_PREFIX

COMPUTED_KEY = "lancegpu:computed"
# Lance may give the field id of a dropped column to the next one, if no file held it. This one is never given twice.
IDENTITY_KEY = "lancegpu:identity"
PROOF_TYPE = pa.binary(16)


def proof_name(column: str) -> str:
    """Return the name of the hidden column that proves this one (and its siblings)."""
    return f"{PROOF_PREFIX}{column}"


def declared_in(schema: pa.Schema) -> tuple[ComputedColumn, ...]:
    """Return the declarations that a schema carries.

    One without its proof column does not count: another tool copied the column's values, and its metadata with them.

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
        if declaration.proof_column not in schema.names:
            continue
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
    identity = {IDENTITY_KEY: uuid.uuid4().hex}
    fields = [
        pa.field(field.name, field.type, metadata=merged(field.metadata, declaration_metadata(declaration) | identity))
        for field, declaration in columns
    ]
    return [*fields, pa.field(proof, PROOF_TYPE, metadata=identity)]


def identity_of(field: pa.Field) -> str | None:
    """Return what tells this computed column from any other that ever had its name or field id."""
    text: bytes | None = (field.metadata or {}).get(IDENTITY_KEY.encode())
    return None if text is None else text.decode()


def merged(metadata: Mapping[bytes, bytes] | None, added: Mapping[str, str]) -> dict[str, str]:
    """Return field metadata as text, with `added` in it."""
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()} | dict(added)
