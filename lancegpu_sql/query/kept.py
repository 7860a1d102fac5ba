"""Views and macros of a session whose text calls Functions: kept as text, and made on each connection that needs them.

DuckDB looks at what a view calls when it is made, and a Function is known to it only while a query runs. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

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
    """
    uses = calls or kept_used(write.text, kept, but=write.target)
    if write.verb != "CREATE" or write.kind not in _KINDS or not uses:
        return None
    first = tokens_of(write.text)[3 if write.replaces else 1]
    made = write.text[first.start :]
    if write.if_not_exists:
        made = f"{_KINDS[write.kind]} {write.text[_name_at(write) :]}"
    return KeptText(_KINDS[write.kind], write.target[-1], f"CREATE OR REPLACE TEMP {made}")


def _name_at(write: Write) -> int:
    return tokens_of(write.text)[len(write.words)].start


def is_there(write: Write, made: Collection[str], kept: Mapping[str, KeptText]) -> bool:
    """Whether a CREATE has nothing to do: what it would make is there, and it says IF NOT EXISTS.

    Parameters
    ----------
    made
        The names of what DuckDB has of that kind, or of one that cannot be beside it.
    kept
        What is kept, by folded name.

    Raises
    ------
    InvalidQuery
        It is there, and the statement does not say what is to become of it.
    """
    name = write.target[-1]
    of_kind = kept.get(fold(name))
    if of_kind is not None and of_kind.kind != write.keeps_as:
        of_kind = None
    if of_kind is None and fold(name) not in set(map(fold, made)):
        return False
    if write.if_not_exists:
        return True
    if not write.replaces:
        kind = of_kind.kind.lower() if of_kind else "macro" if write.keeps_as == "MACRO" else "table or view"
        raise InvalidQuery(f"There is a {kind} {name!r} already: CREATE OR REPLACE replaces it.", name=name)
    return False


def kept_used(text: str, kept: Mapping[str, KeptText], but: tuple[str, ...] = ()) -> list[KeptText]:
    """What a text mentions of it, and what that mentions, in the order in which it can be made.

    A name that is mentioned as something else, such as a column, counts too.
    """
    if not kept:
        return []
    known = kept.keys() - {fold(name) for name in but}
    needs: dict[str, set[str]] = {}
    new = _names_in(text) & known
    while new:
        needs |= {name: (_names_in(kept[name].text) & known) - {name} for name in new}
        new = {other for others in needs.values() for other in others} - needs.keys()
    return [kept[name] for name in _in_order([name for name in kept if name in needs], needs)]


def _in_order(names: list[str], needs: Mapping[str, set[str]]) -> Iterator[str]:
    """Each after those that it needs, as far as that can be, and else as they were made."""
    left = dict.fromkeys(names)
    while left:
        name = next((name for name in left if not needs[name] & left.keys()), next(iter(left)))
        del left[name]
        yield name


def _names_in(text: str) -> set[str]:
    return {fold(token.text) for token in tokens_of(text) if is_name(token)}
