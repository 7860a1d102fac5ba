"""The catalog's GPU classes: one list, in the operator's order, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.models import GpuClassRecord
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schema import gpu_classes

_classes = sa.select(gpu_classes.c.name, gpu_classes.c.spec, gpu_classes.c.updated_at).order_by(gpu_classes.c.position)


class GpuClassStore:
    """GPU classes, as `placement` wrote them."""

    _connection: CatalogConnection

    def gpu_classes(self) -> list[GpuClassRecord]:
        """Return the classes in the operator's order."""
        with self._connection.reading() as connection:
            rows = connection.execute(_classes).mappings().all()
        return [value_of(GpuClassRecord, dict(row), table="gpu_classes", name=row["name"]) for row in rows]

    def replace_gpu_classes(self, records: Iterable[GpuClassRecord]) -> None:
        """Put this list in the place of the present one; readers see either."""
        rows = [{**record.model_dump(), "position": position} for position, record in enumerate(records)]

        def work(connection: sa.Connection) -> None:
            connection.execute(gpu_classes.delete())
            if rows:
                connection.execute(gpu_classes.insert(), rows)

        self._connection.write(work)
