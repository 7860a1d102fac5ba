"""The catalog's proofs: signatures of fragments whose rows are all current. A cache: lost, it costs a look at the rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.schema import proofs


class ProofStore:
    """Signatures by the column they prove."""

    _connection: CatalogConnection

    def proven(self, column_key: str) -> set[bytes]:
        """Return the signatures kept for a column."""
        with self._connection.reading() as connection:
            return _signatures(connection, column_key)

    def add_proofs(self, column_key: str, signatures: Iterable[bytes]) -> None:
        """Keep signatures; those kept already are left."""
        wanted = set(signatures)

        def work(connection: sa.Connection) -> None:
            new = wanted - _signatures(connection, column_key)
            _insert(connection, column_key, new)

        if wanted:
            self._connection.write(work)

    def drop_proofs(self, column_key: str, keep: Collection[bytes] | None = None) -> None:
        """Forget a column's signatures, all but those in `keep`."""

        def work(connection: sa.Connection) -> None:
            kept = _signatures(connection, column_key).intersection(keep or ())
            connection.execute(proofs.delete().where(proofs.c.column_key == column_key))
            _insert(connection, column_key, kept)

        self._connection.write(work)

    def drop_proofs_under(self, prefix: str, *, keep_key: str | None = None) -> None:
        """Forget all columns whose key begins with `prefix`, but for `keep_key`."""
        under = proofs.c.column_key.startswith(prefix, autoescape=True)
        gone = under if keep_key is None else sa.and_(under, proofs.c.column_key != keep_key)
        with self._connection.writing() as connection:
            connection.execute(proofs.delete().where(gone))


def _signatures(connection: sa.Connection, column_key: str) -> set[bytes]:
    query = sa.select(proofs.c.signature).where(proofs.c.column_key == column_key)
    return {bytes(signature) for signature in connection.execute(query).scalars()}


def _insert(connection: sa.Connection, column_key: str, signatures: Iterable[bytes]) -> None:
    rows = [{"column_key": column_key, "signature": signature} for signature in signatures]
    if rows:
        connection.execute(proofs.insert(), rows)
