"""A catalog of any release before this one is brought up to date with all that is in it, on both stores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgresql_server import PostgresqlServer

from lancegpu_sql.catalog.migrations import history
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.catalog.schema import catalog_schema
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import CatalogError

RELEASED = range(1, history.CURRENT_VERSION)

# What rows refer to each other by, and what a model would not take as a text of any kind.
KNOWN = {
    "functions.key": "f", "function_versions.function_key": "f", "jobs.id": "j", "jobs.state": "queued", "jobs.columns": ["y"],
    "events.job_id": "j", "row_errors.job_id": "j",
}  # fmt: skip
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Store:
    """A catalog's database, looked at without the catalog."""

    def __init__(self, url: str, schema: str | None, opened_as: tuple[str, str]) -> None:
        self._schema = schema
        self._opened_as = opened_as
        path = {"options": f"-c search_path={schema}"} if schema else {}
        self.engine = sa.create_engine(url, connect_args=path)

    def make(self, version: int) -> None:
        """Make its tables as the release of that version had them."""
        with self.engine.begin() as connection:
            if self._schema is not None:
                connection.execute(sa.schema.CreateSchema(self._schema))
            catalog_schema.create(connection)
            connection.execute(catalog_schema.insert().values(version=version))
            for upgrade in history.MIGRATIONS[:version]:
                upgrade(connection)

    def fill(self) -> None:
        """Put a row into each table."""
        with self.engine.begin() as connection:
            for table in self._tables():
                connection.execute(table.insert().values({one.name: value_for(one) for one in table.columns}))

    def rows(self, like: dict[str, list[dict[str, Any]]] | None = None) -> dict[str, list[dict[str, Any]]]:
        """All rows of all tables; only the tables and columns that `like` has, if given."""
        found = {}
        with self.engine.connect() as connection:
            for table in self._tables():
                names = [one.name for one in table.columns if like is None or one.name in like.get(table.name, [{}])[0]]
                if names and (like is None or table.name in like):
                    chosen = sa.select(*(table.c[name] for name in names))
                    found[table.name] = [dict(row) for row in connection.execute(chosen).mappings()]
        return found

    def open(self) -> Catalog:
        place, database = self._opened_as
        return Catalog.open(place, database=database)

    def _tables(self) -> list[sa.Table]:
        metadata = sa.MetaData()
        metadata.reflect(self.engine)
        return [table for table in metadata.sorted_tables if table.name != catalog_schema.name]


def value_for(column: sa.Column[Any]) -> object:
    """A value that tells the column it stands in."""
    known = KNOWN.get(f"{column.table.name}.{column.name}")
    if known is not None:
        return known
    kinds: list[tuple[type[Any], object]] = [
        (sa.Boolean, False),
        (sa.Integer, 7),
        (sa.Float, 0.5),
        (sa.DateTime, MOMENT),
        (sa.JSON, None if column.nullable else {}),
        (sa.LargeBinary, b"payload"),
    ]
    return next((value for kind, value in kinds if isinstance(column.type, kind)), column.name)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        path = tmp_path / "catalog.sqlite"
        made = Store(f"sqlite:///{path}", None, (str(path), ""))
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        database = uuid.uuid4().hex
        url = server.url().replace("postgresql:", "postgresql+psycopg:")
        made = Store(url, f"lancegpu_{database}", (server.url(), database))
    yield made
    made.engine.dispose()


@pytest.mark.parametrize("version", RELEASED)
def test_a_catalog_of_every_release_is_brought_up_to_date_and_keeps_its_rows(store: Store, version: int) -> None:
    store.make(version)
    store.fill()
    before = store.rows()
    with store.open() as catalog:
        assert [job.state for job in catalog.jobs()] == [JobState.QUEUED]
        assert catalog.payload("f", 7) == b"payload"
    assert store.rows(like=before) == before
    assert all(len(rows) == 1 for rows in before.values())


def test_a_migration_that_fails_leaves_the_catalog_as_it_was(store: Store) -> None:
    store.make(1)
    store.fill()
    with store.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE agents (id INTEGER)"))  # in the way of the second version's
    before = store.rows()
    with pytest.raises(CatalogError, match="agents"):
        store.open()
    assert store.rows() == before
    with store.engine.connect() as connection:
        assert connection.execute(sa.select(catalog_schema.c.version)).scalar_one() == 1


def test_a_newer_catalog_is_refused_and_left_as_it_is(store: Store) -> None:
    store.make(history.CURRENT_VERSION)
    store.fill()
    with store.engine.begin() as connection:
        connection.execute(catalog_schema.update().values(version=99))
    before = store.rows()
    with pytest.raises(CatalogError, match=r"schema version 99.*Upgrade lancegpu-sql.*Nothing was changed"):
        store.open()
    assert store.rows() == before
