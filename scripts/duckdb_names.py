"""Write `lancegpu_sql/functions/duckdb_names.txt`: the names that DuckDB's SQL has taken.

Run it after an upgrade of DuckDB; a test compares the file with the installed one.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

NAMES = Path(__file__).parents[1] / "lancegpu_sql" / "functions" / "duckdb_names.txt"

# Operators have no name a Function could take. Of the grammar's words, those left out (`unreserved`,
# `type_function`) can be called like any function.
_QUERY = """
    SELECT lower(function_name) AS name FROM duckdb_functions()
    WHERE regexp_full_match(function_name, '[A-Za-z_][A-Za-z0-9_.-]*')
    UNION
    SELECT lower(keyword_name) FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'column_name')
    ORDER BY name
"""


def taken_names() -> list[str]:
    """Ask the installed DuckDB."""
    with duckdb.connect() as connection:
        return [name for (name,) in connection.execute(_QUERY).fetchall()]


if __name__ == "__main__":
    NAMES.write_text("\n".join(taken_names()) + "\n", encoding="ascii")
