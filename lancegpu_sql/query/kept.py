"""Views and macros of a session whose text calls Functions: kept as text, and made on each connection that needs them.

DuckDB looks at what a view calls when it is made, and a Function is known to it only while a query runs. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.state import KeptText
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.statement import Write
from lancegpu_sql.sql.tokens import is_name, tokens_of

_KINDS = {"VIEW": "VIEW", "MACRO": "MACRO", "FUNCTION": "MACRO"}


def kept_text(write: Write, *, calls: bool, kept: Mapping[str, KeptText]) -> KeptText | None:
    """What to keep of a statement; None where it is DuckDB's own affair.

    Parameters
    ----------
    write
        The statement.
    calls
        Whether its text calls Functions.
    kept
        What is kept already, by folded name.

    Raises
    ------
    InvalidQuery
        A view or macro of that name is kept, and the statement does not say what is to become of it.
    """
    if (
        write.verb != "CREATE"
        or write.kind not in _KINDS
        or not (calls or kept_used(write.text, kept, but=write.target))
    ):
        return None
    name = write.target[-1]
    words = [token.text.upper() for token in tokens_of(write.text)[:5]]
    replaces = words[1:3] == ["OR", "REPLACE"]
    if fold(name) in kept and not replaces:
        raise InvalidQuery(
            f"There is a {kept[fold(name)].kind.lower()} {name!r} already: CREATE OR REPLACE replaces it."
        )
    first = tokens_of(write.text)[3 if replaces else 1]
    return KeptText(_KINDS[write.kind], name, f"CREATE OR REPLACE TEMP {write.text[first.start :]}")


def kept_used(text: str, kept: Mapping[str, KeptText], but: tuple[str, ...] = ()) -> list[KeptText]:
    """What a text mentions of it, and what that mentions, in the order in which it can be made.

    A name that is mentioned as something else, such as a column, counts too.
    """
    if not kept:
        return []
    known = kept.keys() - {fold(name) for name in but}
    used: set[str] = set()
    new = _names_in(text) & known
    while new:
        used |= new
        new = {name for one in new for name in _names_in(kept[one].text) & known} - used
    return [one for name, one in kept.items() if name in used]


def _names_in(text: str) -> set[str]:
    return {fold(token.text) for token in tokens_of(text) if is_name(token)}
