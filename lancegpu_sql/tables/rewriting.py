"""A table written anew, row by row, with stable row ids."""

from __future__ import annotations

import pyarrow as pa

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.columns import declaration_metadata
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.snapshot import Snapshot


def rewrite(old: Snapshot, path: str) -> Snapshot:
    """Write a copy of a table's rows at `path`, a local folder, hidden columns and declarations included.

    Lance numbers the fields of the copy anew, so that the declarations are written once more.
    """
    blobs = [field.name for field in old.full_schema if isinstance(field.type, pa.BaseExtensionType)]
    if blobs:
        raise InvalidData(
            f"Table {old.name!r} cannot be converted: column {blobs[0]!r} is of the extension type "
            f"{old.full_schema.field(blobs[0]).type}.",
            table=old.name,
            column=blobs[0],
        )
    reader = pa.RecordBatchReader.from_batches(old.full_schema, old.scan(old.full_schema.names))
    with lance_errors(old.name):
        dataset = lance.write_dataset(reader, path, schema=old.full_schema, mode="create", enable_stable_row_ids=True)
    new = Snapshot(old.name, path, dataset)
    redeclared = {}
    for column in old.computed:
        inputs = {name: new.field_id(old.field_name(field_id)) for name, field_id in column.inputs.items()}
        redeclared[column.column] = declaration_metadata(column.model_copy(update={"inputs": inputs}))
    if redeclared:
        with lance_errors(old.name):
            dataset.update_field_metadata(redeclared)
    return new
