"""What a refresh is about: one binding's columns, what they are computed from, and what stands for that."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa

from lancegpu_sql.apply.digest import DIGEST_TYPE, binding_key
from lancegpu_sql.catalog.models import ComputedColumn, FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import ColumnNotFound, FunctionNotFound
from lancegpu_sql.tables import Fragment, Snapshot
from lancegpu_sql.tables.views import view_text


@dataclass(frozen=True)
class Target:
    """The sibling columns of one binding in one version of a table.

    `inputs` are the names, in this version, of the columns that feed the parameters, in the order of `parameters`.
    """

    table: str
    columns: tuple[ComputedColumn, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    value_fields: tuple[pa.Field, ...]
    key: bytes
    input_field_ids: frozenset[int]
    own_field_ids: frozenset[int]

    @property
    def declaration(self) -> ComputedColumn:
        """What the siblings have in common: Function, version, inputs, bound values, proof column."""
        return self.columns[0]

    @property
    def proof_column(self) -> str:
        """The hidden column that holds the digests."""
        return self.declaration.proof_column

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns computed."""
        return tuple(column.column for column in self.columns)

    @property
    def title(self) -> str:
        """How people are told what this is about."""
        return f"{self.table}.{', '.join(self.names)}"

    @property
    def proof_prefix(self) -> str:
        """With what the keys of this column begin, whichever Function version computes it."""
        return f"{proofs_of_table(self.table)}{self.proof_column}/"

    @property
    def proof_key(self) -> str:
        """Under what the catalog keeps the fragments known to be current."""
        return f"{self.proof_prefix}{self.key.hex()}"

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of a column file: the values and the digests that prove them."""
        return pa.schema([*self.value_fields, pa.field(self.proof_column, DIGEST_TYPE)])

    def signature(self, fragment: Fragment) -> bytes:
        """Return what changes whenever a stored value of the fragment may no longer be current.

        Lance's data files never change and never share a name. While the same files hold the inputs and the values,
        and the Function and its bound values are the same, what was current stays current.
        """
        return self._files_digest(fragment, self.input_field_ids | self.own_field_ids)

    def proof(self, fragment: Fragment) -> bytes:
        """Return what to note of a fragment whose live rows are all current.

        Where rows are deleted this holds for that very set of them: `restore` brings deleted rows back beside the same
        files, and they may never have been computed.
        """
        signature = self.signature(fragment)
        if fragment.deletions is None:
            return signature
        return hashlib.blake2b(
            signature + fragment.deletions.encode(), digest_size=16, person=b"lancegpu-rows"
        ).digest()

    def is_proven(self, fragment: Fragment, proofs: Collection[bytes]) -> bool:
        """Tell whether what was noted says that all live rows are current; fewer of them than then are so, too."""
        return self.signature(fragment) in proofs or (fragment.deletions is not None and self.proof(fragment) in proofs)

    def input_signature(self, fragment: Fragment) -> bytes:
        """Return what changes whenever an input of the fragment's present rows may have."""
        return self._files_digest(fragment, self.input_field_ids)

    def _files_digest(self, fragment: Fragment, field_ids: frozenset[int]) -> bytes:
        digest = hashlib.blake2b(self.key, digest_size=16, person=b"lancegpu-files")
        for file in sorted(fragment.files, key=lambda file: file.path):
            held = sorted(field_ids.intersection(file.field_ids))
            if held:
                digest.update(f"{file.path}\0{held}\0".encode())
        return digest.digest()


def declared_function(catalog: Catalog, table: str, declaration: ComputedColumn) -> FunctionVersion:
    """Return the Function version that a declaration names.

    A table that came from another database, or outlived its catalog, may name one that is another's here: its digest
    tells, not its number.

    Raises
    ------
    FunctionNotFound
        This database does not know it.
    """
    found = catalog.find_function(declaration.function, declaration.digest)
    if found is None:
        raise FunctionNotFound(
            f"{table}.{declaration.column} was declared with {declaration.function} version {declaration.version} "
            f"(content {declaration.digest[:12]}), which this database does not have. Register that Function here, or "
            f"point the column to another with alter_column({declaration.column!r}, function=...).",
            function=declaration.function,
            version=declaration.version,
            column=declaration.column,
        )
    return found


def proofs_of_table(table: str) -> str:
    """Return with what the keys of a table's proofs begin; no table's name holds a slash."""
    return f"{table}/"


def find_target(snapshot: Snapshot, column: str) -> Target:
    """Return what refreshing `column` means in this version of the table.

    Raises
    ------
    ColumnNotFound
        The table has no such column, or it is not a computed one.
    """
    declaration = next((known for known in snapshot.computed if known.column == column), None)
    if declaration is None:
        raise _not_computed(snapshot, column)
    siblings = tuple(known for known in snapshot.computed if known.proof_column == declaration.proof_column)
    inputs = {parameter: snapshot.field_name(field_id) for parameter, field_id in declaration.inputs.items()}
    names = [sibling.column for sibling in siblings]
    return Target(
        table=snapshot.name,
        columns=siblings,
        parameters=tuple(inputs),
        inputs=tuple(inputs.values()),
        value_fields=tuple(pa.field(name, snapshot.full_schema.field(name).type) for name in names),
        key=binding_key(declaration.digest, declaration.bound),
        input_field_ids=_leaves(snapshot, inputs.values()),
        own_field_ids=_leaves(snapshot, [*names, declaration.proof_column]),
    )


def _leaves(snapshot: Snapshot, columns: Iterable[str]) -> frozenset[int]:
    return frozenset(leaf for name in columns for leaf in snapshot.leaves[snapshot.field_id(name)])


def _not_computed(snapshot: Snapshot, column: str) -> ColumnNotFound:
    if view_text(snapshot.full_schema) is not None:
        return ColumnNotFound(
            f"{snapshot.name!r} is a materialized view, which is refreshed as a whole: REFRESH MATERIALIZED VIEW "
            f"{snapshot.name}, or lancegpu refresh-view {snapshot.name}",
            table=snapshot.name,
            column=column,
        )
    computed = ", ".join(known.column for known in snapshot.computed) or "none yet"
    if column in snapshot.schema.names:
        problem = f"column {column!r} of table {snapshot.name!r} is not a computed one: nothing to refresh"
    else:
        problem = f"table {snapshot.name!r} has no column {column!r}"
    return ColumnNotFound(f"{problem}. Its computed columns: {computed}", table=snapshot.name, column=column)
