"""Runs a plan: each stage on a connection of its own, read by those after it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.query.arguments import FunctionTypes
from lancegpu_sql.query.bound import version_called
from lancegpu_sql.query.carriers import carried, restored
from lancegpu_sql.query.engine import types_for
from lancegpu_sql.query.functions import OnError, Values
from lancegpu_sql.query.in_place import InPlace
from lancegpu_sql.query.reading import FunctionReading
from lancegpu_sql.query.stage_rows import INPUT_ROWS, StageCall, StageRows, output_schema
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.stages import PlannedCall, QueryPlan, Stage
from lancegpu_sql.sql.statements.changes import parameters_in

BindText = Callable[[duckdb.DuckDBPyConnection, str, Any, InPlace], Any]

PENDING_BYTES = 64 * 1024 * 1024
"""Of input that waits for its results and of these, for each stage; and as much again on the way to workers, and back."""


@dataclass(frozen=True)
class _Source:
    """The rows of a stage, to be read once.

    `casts` are the columns whose type Arrow does not keep, and the types they had.
    """

    reader: pa.RecordBatchReader
    casts: Mapping[str, str]


class Stages:
    """One run of a plan.

    Parameters
    ----------
    plan, parameters
        What is run.
    known
        The Functions by folded name.
    reading
        For which it is.
    bind
        Makes a relation of a text on a connection.
    reads_all
        Whether all rows are wanted, so that calls are large from the beginning.
    """

    def __init__(
        self,
        plan: QueryPlan,
        parameters: Any,
        known: Mapping[str, FunctionVersion],
        reading: FunctionReading,
        bind: BindText,
        *,
        reads_all: bool = False,
    ) -> None:
        self._reads_all = reads_all
        self._plan = plan
        self._parameters = parameters
        self._known = known
        self._reading = reading
        self._bind = bind
        self._types = {
            name: FunctionTypes(version_called(known, name)) for stage in plan.stages for name in _functions_of(stage)
        }
        self._sources: dict[str, _Source] = {}
        in_place = set(plan.in_place)
        self._users = Counter(key for stage in plan.stages for key in map(_key, stage.calls) if key[0] not in in_place)

    def relation(self) -> Any:
        """The query's rows, not read yet."""
        for stage in self._plan.stages:
            self._sources[stage.name] = self._run(stage)
        return self._relation(self._reading.cursor(), self._plan.final_sql)

    def _relation(self, cursor: duckdb.DuckDBPyConnection, text: str) -> Any:
        for name in [name for name in self._sources if re.search(rf"\b{name}\b", text)]:
            self._register(cursor, name, self._sources.pop(name))
        parameters = parameters_for(text, self._parameters) if self._plan.stages else self._parameters
        return self._bind(cursor, text, parameters, self._reading.functions)

    def _register(self, cursor: duckdb.DuckDBPyConnection, name: str, source: _Source) -> None:
        if not source.casts:
            cursor.register(name, source.reader)
            return
        cursor.register(f"{name}_arrow", source.reader)
        cursor.execute(f"CREATE TEMP VIEW {quote(name)} AS {restored(f'{name}_arrow', source.casts)}")

    def _run(self, stage: Stage) -> _Source:
        cursor = self._reading.cursor()
        relation, calls = self._with_arguments(cursor, stage, self._relation(cursor, stage.input_sql))
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        relation, _ = carried(relation)
        stream = self._reading.keep(relation.to_arrow_reader(INPUT_ROWS))
        schema = output_schema(stage, stream.schema, self._types)
        kept = map(str, types_for(cursor.cursor(), [schema.field(name).type for name in stage.carried]))
        casts = {name: kinds[name] for name, kind in zip(stage.carried, kept, strict=True) if kinds[name] != kind}
        rows = self._rows(stage, stream, calls, schema)
        return _Source(pa.RecordBatchReader.from_batches(schema, rows), casts)

    def _with_arguments(
        self, cursor: duckdb.DuckDBPyConnection, stage: Stage, relation: Any
    ) -> tuple[Any, list[StageCall]]:
        """The input with columns of the parameters' types, cast as DuckDB casts arguments, and the calls of these."""
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        added: dict[str, str] = {}
        calls = []
        for call in stage.calls:
            types = self._types[call.function]
            arguments = []
            for name, kind in zip(call.arguments, map(str, types_for(cursor, types.readable_parameters)), strict=True):
                cast = name if kinds[name] == kind else f"{name} {kind}"
                if cast != name:
                    added[cast] = f"CAST({quote(name)} AS {kind}) AS {quote(cast)}"
                arguments.append(cast)
            calls.append(StageCall(tuple(arguments), call.mask, types, self._submit(call)))
        return (relation.project(f"*, {', '.join(added.values())}") if added else relation), calls

    def _submit(self, call: PlannedCall) -> Callable[[pa.RecordBatch], Values]:
        version, on_error = version_called(self._known, call.function), _key(call)[1]
        return lambda arguments: self._reading.submit(version, on_error, arguments)

    def _rows(
        self, stage: Stage, stream: pa.RecordBatchReader, calls: Sequence[StageCall], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a stage; whatever goes wrong ends the reading, before DuckDB makes words of it."""
        try:
            read = partial(self._reading.tally.read, stage.name)
            every, most = self._reads_all, PENDING_BYTES
            yield from StageRows(stage.carried, stream, calls, schema, pending_bytes=most, reads_all=every, read=read)
            self._leave(stage.calls)
        except GeneratorExit:
            raise
        except BaseException as exc:
            self._reading.fail(exc)
            raise

    def _leave(self, calls: Sequence[PlannedCall]) -> None:
        """Give the workers back that no other part of the query needs."""
        for call in calls:
            key = _key(call)
            self._users[key] -= 1
            if self._users[key] == 0:
                self._reading.release(version_called(self._known, call.function), key[1])


def _functions_of(stage: Stage) -> list[str]:
    return [call.function for call in stage.calls]


def _key(call: PlannedCall) -> tuple[str, OnError]:
    return call.function, "null" if call.try_ else "raise"


def parameters_for(text: str, parameters: Any) -> Any:
    """Of the parameters of a query, those that a part of it mentions: DuckDB takes no others."""
    if parameters is None or "?" in {name[0] for name in parameters_in(text)}:
        return parameters
    given = parameters if isinstance(parameters, Mapping) else {str(at): one for at, one in enumerate(parameters, 1)}
    wanted = {name[1:] for name in parameters_in(text)}
    return {name: value for name, value in given.items() if name in wanted} or None
