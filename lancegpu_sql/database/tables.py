"""Tables made and removed, with what else is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import refuse_drop, refuse_overwrite
from lancegpu_sql.refresh.target import proofs_of_table
from lancegpu_sql.tables.places import CreateMode

if TYPE_CHECKING:
    import pyarrow as pa


def create_table(services: Services, name: str, rows: pa.RecordBatchReader, mode: CreateMode) -> None:
    """Create a table and fill it; one that is replaced loses its schedules, for its computed columns are gone.

    Raises
    ------
    AlreadyExists, InvalidName, InvalidData, StorageError
    InUse
        It would replace a materialized view, or a table that one reads.
    """
    if mode == "overwrite":
        refuse_overwrite(services, name)
    services.tables.create(name, rows, mode)
    if mode == "overwrite":
        services.catalog.drop_schedules_of_table(name)


def drop_table(services: Services, name: str, *, missing_ok: bool = False) -> None:
    """Remove a table with all its versions, the proofs of its computed columns and their schedules.

    Raises
    ------
    TableNotFound
        Unless `missing_ok`.
    InUse
        A view reads it, or it is one.
    """
    refuse_drop(services, name)
    services.tables.drop(name, missing_ok=missing_ok)
    services.catalog.drop_proofs_under(proofs_of_table(name))
    services.catalog.drop_schedules_of_table(name)
