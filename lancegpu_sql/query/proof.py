"""What tells in which rows the value of a computed column is current."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lancegpu_sql.query.readable import readable_field
from lancegpu_sql.sql.stages import StoredColumn
from lancegpu_sql.tables.snapshot import Snapshot


@dataclass(frozen=True)
class Proof:
    """How to tell in which rows the value of a computed column is current.

    Attributes
    ----------
    reads
        The columns that tell, hidden ones too.
    doubtful
        The ids of the fragments in which not every row is known to be current.
    current
        Tells of each row of a batch with those columns.
    """

    reads: tuple[str, ...]
    doubtful: frozenset[int]
    current: Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class Stored:
    """A computed column that may be read instead of calling its Function.

    `proof` is None where all its rows are current, or where it cannot be told which are.
    """

    column: StoredColumn
    proof: Proof | None = None


def proof_fields(snapshot: Snapshot, proofs: Mapping[str, Proof], added: Mapping[str, str]) -> Iterator[pa.Field]:
    """The columns of a relation that proves rows: those that tell, and computed columns under other names."""
    yield from (pa.field(name, pa.bool_(), nullable=False) for name in proofs)
    for name, column in added.items():
        yield readable_field(snapshot.full_schema.field(column)).with_name(name)
