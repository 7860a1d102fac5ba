"""A new table at its final place, made so that of several who create it at once exactly one does.

Lance's own `write_dataset` in the mode ``create`` looks whether a table is there, and commits in whatever place the rivals
left: the second of two replaces the first one's rows. Its commit without another try takes the first version or none.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancegpu_sql.errors import AlreadyExists, VersionNotFound
from lancegpu_sql.tables.column_file import data_path
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.files import StorageOptions, files_at


def create(name: str, uri: str, reader: pa.RecordBatchReader, options: StorageOptions | None) -> Any:
    """Return the dataset, with stable row ids.

    Raises
    ------
    AlreadyExists
        There is one; nothing of this one is left.
    StorageError
        The store refused. Where it broke off over the commit, the table may be there by now.
    """
    given = dict(options) if options else None
    with lance_errors(name):
        transaction = lance.fragment.write_fragments(
            reader,
            uri,
            schema=reader.schema,
            mode="create",
            return_transaction=True,
            enable_stable_row_ids=True,
            storage_options=given,
        )
    try:
        with lance_errors(name):
            return lance.LanceDataset.commit(
                uri, transaction, storage_options=given, enable_stable_row_ids=True, max_retries=0
            )
    # Whoever finds another's first version looks for the one before it.
    except (AlreadyExists, VersionNotFound) as exc:
        written = [data_path(file.path) for one in transaction.operation.fragments for file in one.files]
        with lance_errors(name):
            first = lance.dataset(uri, version=1, storage_options=given)
            # It may have been this one, of which only the store's reply was lost: its files must stay then.
            if first.read_transaction(1).uuid == transaction.uuid:
                return first
            files_at(uri, options).remove(written)
        raise AlreadyExists(f"There is a table {name!r} already.", table=name) from exc
