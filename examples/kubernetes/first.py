"""A table, a column that a GPU of the class `default` computes, and its first refresh, left to the agent."""

import os

import pyarrow as pa

from lancegpu_sql import col, connect, function


@function(gpu=True)
def text_size(text: str) -> int:
    return len(text)


db = connect(os.environ["LANCEGPU_DB"])
reviews = db.create_table("reviews", pa.table({"text": ["good", "could be better"]}))
reviews.add_columns({"size": text_size(text=col("text"))})
print("job", reviews.refresh_column("size", wait=False).id)
