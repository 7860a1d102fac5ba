"""Functions beside one's own tables in DuckDB: a database attached to a connection that is there already."""

from __future__ import annotations

import tempfile

import duckdb
import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import function


@function
def initials(name: str) -> str:  # runs in a worker, once for each name that differs
    return "".join(word[0] for word in name.split()).upper()


with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
    with lg.connect(folder) as db:
        db.create_table("people", pa.table({"id": [1, 2, 3], "name": ["Ada Lovelace", "Grace Hopper", "Alan Turing"]}))
        db.create_function(initials)

    connection.execute("CREATE TABLE visits AS SELECT 1 + i % 3 AS person, i AS day FROM range(10000) r(i)")
    with lg.attach(connection, folder):
        connection.sql("""
            SELECT initials(name) AS who, count(*) AS visits, max(day) AS last
            FROM visits JOIN people ON people.id = visits.person GROUP BY who ORDER BY who
        """).show()
