"""The catalog's tables can stand in PostgreSQL as well."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from lancegpu_sql.catalog import schema


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=lambda table: table.name)
def test_a_table_can_be_said_in_postgresqls_words(table: sa.Table) -> None:
    text = str(CreateTable(table).compile(dialect=postgresql.dialect()))
    assert "sqlite" not in text.lower()
    assert "TIMESTAMP WITHOUT TIME ZONE" not in text
