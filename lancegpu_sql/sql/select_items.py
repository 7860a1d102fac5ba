"""Where the items of SELECT lists stand in a text, told by tokens alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lancegpu_sql.sql.call_sites import CLOSING, OPENING, closings, compares, word_of
from lancegpu_sql.sql.tokens import Token, TokenType, tokens_of

_AFTER_LIST = frozenset(
    {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "USING", "UNION", "EXCEPT"}
    | {"INTERSECT", "SELECT"}
)


@dataclass
class _List:
    """The SELECT list being read between one pair of brackets; `start` is where its present item begins."""

    start: int | None = None


def select_items(text: str) -> list[tuple[int, int]]:
    """The spans of the items of every SELECT list, in the order of their ends.

    A text that is one SELECT and holds no other has none: its columns are those of its result.
    """
    tokens = tokens_of(text)
    selects = [index for index in range(len(tokens)) if _is_select(tokens, index)]
    if selects in ([], [0]):
        return []
    pairs = closings(tokens)
    found: list[tuple[int, int]] = []
    lists = [_List()]

    def end_item(last: int, next_start: int | None = None) -> None:
        start = lists[-1].start
        if start is not None and start <= last:
            found.append((tokens[start].start, tokens[last].end + 1))
        lists[-1].start = next_start

    for index, token in enumerate(tokens):
        if token.token_type in OPENING:
            lists.append(_List())
        elif token.token_type in CLOSING:
            end_item(index - 1)
            if len(lists) > 1:
                lists.pop()
        elif _is_select(tokens, index):
            end_item(index - 1, _first_item(tokens, index, pairs))
        elif lists[-1].start is None or index < lists[-1].start:
            continue
        elif token.token_type is TokenType.COMMA:
            end_item(index - 1, index + 1)
        elif token.token_type is TokenType.SEMICOLON or _ends_list(tokens, index):
            end_item(index - 1)
    end_item(len(tokens) - 1)
    return found


def _is_select(tokens: Sequence[Token], index: int) -> bool:
    dotted = index > 0 and tokens[index - 1].token_type is TokenType.DOT
    return tokens[index].token_type is TokenType.SELECT and not dotted


def _ends_list(tokens: Sequence[Token], index: int) -> bool:
    dotted = tokens[index - 1].token_type is TokenType.DOT
    return word_of(tokens[index]) in _AFTER_LIST and not dotted and not compares(tokens, index)


def _first_item(tokens: Sequence[Token], select: int, pairs: dict[int, int]) -> int:
    """The index of the token with which a SELECT's first item begins."""
    index = select + 1
    words = [word_of(token) for token in tokens[index : index + 2]]
    if words[:1] == ["ALL"]:
        return index + 1
    if words[:1] != ["DISTINCT"]:
        return index
    return pairs.get(index + 2, index + 1) + 1 if words[1:] == ["ON"] else index + 1
