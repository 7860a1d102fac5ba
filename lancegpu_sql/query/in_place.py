"""Functions as DuckDB calls them: Arrow UDFs under private names, made for one query and removed after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import duckdb
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidData
from lancegpu_sql.query.arguments import FunctionTypes
from lancegpu_sql.query.bound import version_called
from lancegpu_sql.query.inner_names import InnerNames
from lancegpu_sql.query.private_names import WrittenLines, as_written, private_name, unquoted
from lancegpu_sql.query.udf import make_udf
from lancegpu_sql.sql.functions_in_text import Signature, TextCall, calls_in, in_place


@dataclass(frozen=True)
class Way:
    """How a Function is called.

    Attributes
    ----------
    version
        The Function.
    in_try
        Whether a row that fails is caught by a TRY.
    alone_in_try
        Whether it is all that stands there, so that null for its value is null for the whole.
    """

    version: FunctionVersion
    in_try: bool = False
    alone_in_try: bool = False


Movable = Literal["none", "deterministic", "all"]
Evaluate = Callable[[Way, pa.RecordBatch], pa.Array]


class CaughtByTry(Exception):
    """A row failed inside of TRY: DuckDB asks again, row by row, and gives null for it."""


def signatures_of(known: Mapping[str, FunctionVersion]) -> dict[str, Signature]:
    """What the planner must know of Functions, by folded name."""
    return {
        name: Signature(
            version.name,
            tuple(each.name for each in version.parameters),
            version.deterministic,
            version.digest,
            version.init_parameters,
        )
        for name, version in known.items()
    }


class InPlace:
    """The Functions of one query on an engine, made when a text calls them.

    DuckDB calls one with at most 2,048 rows at a time, from threads of its own, for rows that reach the expression.

    Parameters
    ----------
    maker
        A connection to the engine that runs nothing else: all connections see what is made on it. It is closed here.
    known
        The Functions by folded name.
    evaluate
        Computes one, and returns its values; raises `CaughtByTry` for a row that failed in a TRY.
    failed
        Told of any other error before DuckDB makes words of it.
    doubted
        Told of one of a call with constants, or with what DuckDB finds to be constant: it makes it while it plans, and
        goes on without its value where it fails. Should a row need it, it is made again, and the error is DuckDB's too.
    """

    def __init__(
        self,
        maker: duckdb.DuckDBPyConnection,
        known: Mapping[str, FunctionVersion],
        evaluate: Evaluate,
        failed: Callable[[BaseException], None] = lambda _error: None,
        doubted: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self._maker = maker
        self._known = known
        self._signatures = signatures_of(known)
        self._evaluate = evaluate
        self._failed = failed
        self._doubted = doubted
        self._callables: list[Callable[..., pa.Array]] = []  # DuckDB counts on them to live as long as its functions
        self._names: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._lines = WrittenLines()
        self._inner_names = InnerNames(maker, self.as_written)
        self.names_inner = False  # DuckDB then shows lines that nobody wrote

    def text(self, text: str, movable: Movable = "none", *, united: bool = False) -> str:
        """A text with the Functions' private names.

        Parameters
        ----------
        movable
            Which Functions DuckDB may move as it moves those of its own, and compute while it plans. Others it does not
            push below a join or before a cheap condition; but there are places where it allows none such. What a
            Function gives for constants it may always compute beforehand, where nothing keeps it from being computed.
        united
            Whether calls that are written alike are one, in TRY and outside of it: a key of GROUP BY.
        """
        calls = calls_in(text, self._signatures)
        if not calls:
            return text
        called = _united(text, calls) if united else calls
        marked = [replace(call, function=self._made(call, movable)) for call in called]
        private = unquoted(in_place(text, marked, self._names), self._names.values())
        self._lines.note(private, text)
        return private

    def with_inner_names(self, text: str) -> str:
        """A text with private names in which the columns of subqueries have names that their user can write."""
        named = self._inner_names.given(text)
        self.names_inner = self.names_inner or named != text
        return named

    def as_written(self, words: str) -> str:
        """What DuckDB says, in the Functions' own names, of lines as they are written."""
        return self._inner_names.taken_out(as_written(self._lines.put_back(words), self._written))

    def close(self) -> None:
        """Remove them."""
        try:
            for private in self._names.values():
                self._maker.remove_function(private)
        finally:
            self._names = {}
            self._maker.close()

    def _made(self, call: TextCall, movable: Movable) -> str:
        """The key of a way to call a Function, which DuckDB knows from now on."""
        version = version_called(self._known, call.function)
        way = Way(version, call.in_try, call.in_try and call.alone_in_try)
        # Inside of TRY DuckDB allows nothing else.
        constant = call.constant and version.deterministic
        moves = way.in_try or movable == "all" or (movable == "deterministic" and version.deterministic) or constant
        key = f"{call.function} {way.in_try} {way.alone_in_try} {moves} {constant} {movable}"
        if key not in self._names:
            private = private_name(way.version.name)
            may_be_early = constant or movable == "deterministic"
            self._make(private, way, self._doubted if may_be_early else self._failed, moves=moves)
            self._names[key] = private
            self._written[private] = way.version.name
        return key

    def _make(self, private: str, way: Way, failed: Callable[[BaseException], None], *, moves: bool) -> None:
        types = FunctionTypes(way.version)

        def called(*columns: Any) -> pa.Array:
            try:
                arguments = types.arguments(columns)
                return types.readable_values(self._evaluate(way, arguments))
            except CaughtByTry:
                raise
            except BaseException as exc:
                if not (way.in_try and isinstance(exc, InvalidData)):
                    failed(exc)
                raise

        self._callables.append(called)
        make_udf(self._maker, private, types, called, volatile=not moves)


def _united(text: str, calls: Sequence[TextCall]) -> list[TextCall]:
    alike: dict[tuple[str, ...], list[TextCall]] = {}
    for call in calls:
        arguments = ("".join(text[start:end].split()) for start, end in call.arguments)
        alike.setdefault((call.function, *arguments), []).append(call)
    return [_shared(call, others) for others in alike.values() for call in others]


def _shared(call: TextCall, alike: Sequence[TextCall]) -> TextCall:
    """A call as all that are written like it can be made: so DuckDB knows it wherever it stands."""
    in_try = all(other.in_try for other in alike)
    alone = in_try and all(other.alone_in_try for other in alike)
    return replace(call, in_try=in_try, alone_in_try=alone, constant=all(other.constant for other in alike))


class NeedsToRun(Exception):
    """DuckDB must know values to tell what columns a query has: a PIVOT looks for its columns in the rows."""


def refuse(_way: Way, _arguments: pa.RecordBatch) -> pa.Array:
    """Compute nothing: a query is only being described."""
    raise NeedsToRun
