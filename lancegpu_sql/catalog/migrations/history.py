"""Brings a catalog's tables up to this release, or refuses one that a newer release made."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from lancegpu_sql.catalog.migrations import version_1, version_2, version_3, version_4, version_5, version_6
from lancegpu_sql.catalog.schema import catalog_schema
from lancegpu_sql.errors import CatalogError

MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (
    version_1.upgrade,
    version_2.upgrade,
    version_3.upgrade,
    version_4.upgrade,
    version_5.upgrade,
    version_6.upgrade,
)
CURRENT_VERSION = len(MIGRATIONS)


def schema_version(connection: sa.Connection, place: str) -> int:
    """Return the version of the catalog's tables: 0 where there are none yet."""
    tables = set(sa.inspect(connection).get_table_names())
    if not tables:
        return 0
    if catalog_schema.name not in tables:
        raise CatalogError(
            f"{place} is a database of another program (it has tables, but none named {catalog_schema.name}); "
            "name another file for the catalog.",
            path=place,
        )
    version: int = connection.execute(sa.select(catalog_schema.c.version)).scalar_one()
    return version


def check_readable(version: int, place: str) -> None:
    """Refuse the tables of a newer release."""
    if version > CURRENT_VERSION:
        raise CatalogError(
            f"The catalog {place} has schema version {version}, and this release of lancegpu-sql knows {CURRENT_VERSION} "
            "at most: a newer release made it. Upgrade lancegpu-sql here (pip install --upgrade lancegpu-sql). "
            "Nothing was changed.",
            path=place,
            found=version,
            known=CURRENT_VERSION,
        )


def migrate(connection: sa.Connection, place: str) -> None:
    """Run, inside the caller's write transaction, every migration the catalog has not had."""
    version = schema_version(connection, place)
    check_readable(version, place)
    if version == 0:
        catalog_schema.create(connection)
        connection.execute(catalog_schema.insert().values(version=0))
    for upgrade in MIGRATIONS[version:]:
        upgrade(connection)
    connection.execute(catalog_schema.update().values(version=CURRENT_VERSION))
