"""How a query with Functions runs, for people and for programs: stages, what runs where, what it took. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.query.tally import Spent, Tally
from lancegpu_sql.sql.stages import QueryPlan, Stage


@dataclass(frozen=True)
class Place:
    """Where a Function runs.

    `gpu_class` is None for one that uses no GPU.
    """

    function: str
    version: int
    gpu_class: str | None
    gpus: int = 0

    def __str__(self) -> str:
        gpus = f"{self.gpus} GPUs" if self.gpus > 1 else "a GPU"
        return (
            "a worker without GPU" if self.gpu_class is None else f"a worker with {gpus} of the class {self.gpu_class}"
        )


@dataclass(frozen=True)
class Measured:
    """What reading the query took.

    Attributes
    ----------
    rows, seconds
        Of its result, and until the last of them was there.
    tally
        What was asked.
    spent
        What workers did, by folded name of the Function.
    """

    rows: int
    seconds: float
    tally: Tally
    spent: Mapping[str, Spent]


def as_value(plan: QueryPlan, places: Mapping[str, Place], measured: Measured | None = None) -> dict[str, Any]:
    """The plan as what JSON can say.

    Parameters
    ----------
    places
        Of each Function that the query calls, by folded name.
    measured
        What a run of it took; None where it was not run.
    """
    value: dict[str, Any] = {
        "stages": [_stage(stage, measured) for stage in plan.stages],
        "query": plan.final_sql,
        "in_place": list(plan.in_place),
        "functions": [_function(name, place, measured) for name, place in places.items()],
        "notes": list(plan.notes),
    }
    if measured is not None:
        value |= {"rows": measured.rows, "seconds": round(measured.seconds, 6)}
    return value


def _stage(stage: Stage, measured: Measured | None) -> dict[str, Any]:
    calls = [
        {
            "result": call.result,
            "function": call.function,
            "arguments": list(call.arguments),
            "mask": call.mask,
            "try": call.try_,
        }
        for call in stage.calls
    ]
    value: dict[str, Any] = {
        "name": stage.name,
        "input": stage.input_sql,
        "calls": calls,
        "carried": list(stage.carried),
    }
    if measured is not None:
        tally = measured.tally
        value |= {"rows": tally.stage_rows[stage.name], "bytes": tally.stage_bytes[stage.name]}
    return value


def _function(name: str, place: Place, measured: Measured | None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "function": place.function,
        "version": place.version,
        "gpu_class": place.gpu_class,
        "gpus": place.gpus,
    }
    if measured is not None:
        spent, tally = measured.spent.get(name, Spent()), measured.tally
        value |= {
            "rows_asked": tally.asked_rows[name],
            "bytes_asked": tally.asked_bytes[name],
            "rows_computed": spent.rows,
            "calls": spent.calls,
            "seconds": round(spent.seconds, 6),
            "waiting_seconds": round(spent.waiting_seconds, 6),
        }
    return value


def as_text(plan: QueryPlan, places: Mapping[str, Place], measured: Measured | None = None) -> str:
    """The plan for people; parameters as of `as_value`."""
    value = as_value(plan, places, measured)
    lines: list[str] = []
    for stage in value["stages"]:
        lines += _stage_lines(stage, places)
    lines += ["query" if plan.stages else "query, as written", f"  {value['query']}"]
    lines += [f"  calls {name} in place, on {places[name]}" for name in value["in_place"] if name in places]
    lines += [
        "functions",
        *(_function_line(each, places[name]) for name, each in zip(places, value["functions"], strict=True)),
    ]
    if value["notes"]:
        lines += ["why", *(f"  {note}" for note in value["notes"])]
    if measured is not None:
        lines.append(f"{_counted(measured.rows, 'row')} in {measured.seconds:.3f} s")
    return "\n".join(lines)


def _stage_lines(stage: Mapping[str, Any], places: Mapping[str, Place]) -> list[str]:
    read = f": {_counted(stage['rows'], 'row')}, {_size(stage['bytes'])}" if "rows" in stage else ""
    lines = [f"{stage['name']}{read}", f"  reads {stage['input']}"]
    for call in stage["calls"]:
        made = f"{call['function']}({', '.join(call['arguments'])})"
        made = f"TRY({made})" if call["try"] else made
        where = f", where {call['mask']}" if call["mask"] else ""
        on = f", on {places[call['function']]}" if call["function"] in places else ""
        lines.append(f"  {call['result']} = {made}{where}{on}")
    return lines


def _function_line(value: Mapping[str, Any], place: Place) -> str:
    line = f"  {value['function']} version {value['version']} on {place}"
    if "calls" not in value:
        return line
    asked = f"asked for {_counted(value['rows_asked'], 'row')} ({_size(value['bytes_asked'])})"
    computed = f"computed {value['rows_computed']:,} in {_counted(value['calls'], 'call')}, {value['seconds']:.3f} s"
    return f"{line}: {asked}, {computed}, waited {value['waiting_seconds']:.3f} s"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(number: int) -> str:
    size, unit = float(number), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{number:,} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
