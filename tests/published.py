"""What refreshes published, as the commits of a table tell it."""

from __future__ import annotations

from collections import Counter

import lance

from lancegpu_sql.tables.publishing import JOB_PROPERTY


def publications(uri: str) -> Counter[str]:
    """How many commits of a table each job made."""
    dataset = lance.dataset(uri)
    found: Counter[str] = Counter()
    for version in range(1, dataset.version + 1):
        transaction = dataset.read_transaction(version)
        if transaction is not None and JOB_PROPERTY in transaction.transaction_properties:
            found[transaction.transaction_properties[JOB_PROPERTY]] += 1
    return found
