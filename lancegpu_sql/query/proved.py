"""Tables of which every row says whether the value of a computed column is current in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

import pyarrow as pa

from lancegpu_sql.query.picked import PickedRows
from lancegpu_sql.query.proof import Proof, Stored, proof_fields
from lancegpu_sql.query.readable import to_readable
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import StoredColumn
from lancegpu_sql.tables.naming import is_blob


class ProvedRelation(TableRelation):
    """A table's columns and, after them, one that is true where a computed column is current, for each of some.

    Only what is asked for is found out, and only fragments in doubt are looked at.

    Parameters
    ----------
    table
        The table.
    proofs
        By the names of those columns, which no column of the table has.
    added
        Computed columns that the table's users do not see, by the names that they have here.
    """

    def __init__(self, table: TableRelation, proofs: Mapping[str, Proof], added: Mapping[str, str]) -> None:
        super().__init__(table.snapshot, table.row_columns)
        self._proofs = proofs
        self._added = added
        # Lance carries out no condition on them, for it does not know them.
        self._schema = pa.schema([*self._schema, *proof_fields(table.snapshot, proofs, added)])

    def _reader(self, names: Sequence[str], condition: Any = None) -> pa.RecordBatchReader:
        asked = {name: self._proofs[name] for name in names if name in self._proofs}
        if not asked and self._added.keys().isdisjoint(names):
            return super()._reader(names, condition)
        plain = {name: self._added.get(name, name) for name in names if name not in asked}
        runs = [_Run(asked, plain, fragments) for fragments in self._runs(asked)]
        scanners = [self._scanner(run.columns, condition, run.fragments) for run in runs]
        first = [scanner.to_reader() for scanner in scanners[:1]]  # a condition that Lance refuses is refused here
        readers = chain(first, (scanner.to_reader() for scanner in scanners[1:]))
        schema = pa.schema([self._schema.field(name) for name in names])
        batches = (run.shown(batch, schema) for run, reader in zip(runs, readers, strict=True) for batch in reader)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _runs(self, asked: Mapping[str, Proof]) -> Iterator[list[int]]:
        """The fragments in the table's order, those together that are next to each other and in doubt, or are not."""
        doubtful = frozenset[int]().union(*(proof.doubtful for proof in asked.values()))
        ids = [fragment.id for fragment in self.snapshot.fragments]
        return (list(run) for _, run in groupby(ids, key=doubtful.__contains__))

    def _scanner(self, columns: list[str], condition: Any, fragments: Sequence[int]) -> Any:
        stored = [self.snapshot.full_schema.field(name) for name in columns if name not in self.row_columns]
        blobs = {"blob_handling": "all_binary"} if any(map(is_blob, stored)) else {}
        chosen = [self._dataset.get_fragment(one) for one in fragments]
        # Rows are counted even where no column of them is wanted.
        return self._dataset.scanner(
            columns=columns, filter=condition, fragments=chosen, with_row_address=not columns, **blobs
        )


class _Run:
    """Fragments one after the other, all in doubt or none, and what of them is read."""

    def __init__(self, asked: Mapping[str, Proof], plain: Mapping[str, str], fragments: Sequence[int]) -> None:
        self.fragments = fragments
        self._asked = asked
        self._plain = plain
        self._told = {name: proof for name, proof in asked.items() if not proof.doubtful.isdisjoint(fragments)}
        read = (column for proof in self._told.values() for column in proof.reads)
        self.columns = list(dict.fromkeys([*plain.values(), *read]))

    def shown(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """What was read, with what it tells, under types that DuckDB reads."""
        columns = [self._column(field.name, batch) for field in schema]
        return to_readable(pa.RecordBatch.from_arrays(columns, names=schema.names), schema)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if name not in self._asked:
            return batch.column(self._plain[name])
        return self._told[name].current(batch) if name in self._told else pa.repeat(True, batch.num_rows)


def proved(
    name: str, table: TableRelation, stored: Sequence[Stored], taken: Sequence[str]
) -> tuple[list[StoredColumn], str, TableRelation | None]:
    """The computed columns of a table as the planner sees them, and the relation that proves those in doubt.

    Parameters
    ----------
    name
        The table's name in the text.
    taken
        Names that the relation cannot have.

    Returns
    -------
    tuple
        The columns, the relation's name, and the relation; None where no column needs one.
    """
    relation = f"{name}, proved"
    while fold(relation) in map(fold, taken):
        relation += "+"
    used = {fold(column) for column in table.schema.names}
    columns: list[StoredColumn] = []
    proofs: dict[str, Proof] = {}
    added: dict[str, str] = {}
    for one in stored:
        column, seen = one.column, one.column.column in table.schema.names
        if one.proof is not None and not (column.fully_fresh and seen):
            proof = _unused(f"{column.column} is current", used)
            proofs[proof] = one.proof
            column = replace(column, proved=relation, proof=proof, fully_fresh=False)
            if not seen:
                hidden = _unused(f"{column.column} as computed", used)
                added[hidden] = column.column
                column = replace(column, column=hidden, added=True)
        elif not seen:
            continue
        columns.append(column)
    if not proofs:
        return columns, relation, None
    return columns, relation, _proving(table, proofs, added)


def _proving(table: TableRelation, proofs: Mapping[str, Proof], added: Mapping[str, str]) -> TableRelation:
    return table.proving(proofs, added) if isinstance(table, PickedRows) else ProvedRelation(table, proofs, added)


def _unused(name: str, used: set[str]) -> str:
    """A name that no column has, which has it from now on."""
    while fold(name) in used:
        name += "+"
    used.add(fold(name))
    return name
