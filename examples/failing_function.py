"""A Function that fails on a row: how to see why, and how to go on with a better version of it."""

from __future__ import annotations

import tempfile

import pyarrow as pa

import lancegpu_sql as lg
from lancegpu_sql import col, function


@function(name="price_in_cents")
def price_in_cents(price: str) -> int:
    print(f"reading {price!r}")
    return round(float(price) * 100)


with tempfile.TemporaryDirectory() as folder, lg.connect(folder) as db:
    goods = db.create_table("goods", pa.table({"id": [1, 2, 3], "price": ["1.50", "2.25", "free"]}))
    goods.add_columns({"cents": price_in_cents(price=col("price"))})
    try:
        goods.refresh_column("cents")
    except lg.errors.RowFailed as problem:
        print(f"{problem.error_type} on {problem.arguments}")  # also: row_id, user_traceback
    (job,) = db.list_jobs(table="goods")
    print("state:", job.state)
    print("log:", db.get_job(job.id).log().splitlines())  # what the Function printed
    print("last event:", db.get_job(job.id).events()[-1].kind)

    @function(name="price_in_cents")
    def better(price: str) -> int | None:
        return None if price == "free" else round(float(price) * 100)

    print("now version", db.create_function(better).version)
    goods.alter_column("cents", function=better)
    goods.refresh_column("cents")
    print(db.sql("SELECT id, cents FROM goods ORDER BY id").fetchall())
