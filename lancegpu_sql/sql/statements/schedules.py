"""SCHEDULE clauses: when something is refreshed by itself, and what ALTER … COLUMN says of that."""

from __future__ import annotations

from lancegpu_sql.sql.statements.model import (
    DropColumnSchedule,
    EnableColumnSchedule,
    Name,
    ScheduleClause,
    SetColumnSchedule,
    Statement,
)
from lancegpu_sql.sql.statements.options import options
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind

_SPAN = "a span of time, such as '10 minutes'"


def schedule(reader: Reader) -> ScheduleClause:
    """Read what follows SCHEDULE: EVERY …, CRON … or ON CHANGE."""
    position = reader.peek().start
    kind = reader.one_of("EVERY", "CRON", "ON")
    every = cron = time_zone = jitter = None
    if kind == "ON":
        reader.keywords("CHANGE")
    elif kind == "EVERY":
        every = _span(reader)
    else:
        cron = reader.string("a cron expression in quotes, such as '*/5 * * * *'")
        if reader.accept("TIME"):
            reader.keywords("ZONE")
            time_zone = reader.string("the name of a time zone in quotes, such as 'Europe/Paris'")
    if kind != "ON" and reader.accept("JITTER"):
        jitter = _span(reader)
    return ScheduleClause(every, cron, time_zone, jitter, position)


def alter_column(reader: Reader, table: Name, column: str) -> Statement | None:
    """Read what ALTER TABLE t ALTER COLUMN c says of the column's schedule; None where it says something else."""
    text, place = reader.text, reader.start
    if reader.accept("SET", "SCHEDULE"):
        clause = schedule(reader)
        return SetColumnSchedule(
            text=text, place=place, table=table, column=column, schedule=clause, options=options(reader)
        )
    if reader.accept("DROP", "SCHEDULE"):
        return DropColumnSchedule(text=text, place=place, table=table, column=column)
    for keyword, enabled in (("ENABLE", True), ("DISABLE", False)):
        if reader.accept(keyword):
            reader.keywords("SCHEDULE")
            return EnableColumnSchedule(text=text, place=place, table=table, column=column, enabled=enabled)
    return None


def _span(reader: Reader) -> str:
    """Read [INTERVAL] '10 minutes', 10 MINUTES or '10' MINUTES."""
    reader.accept("INTERVAL")
    if reader.peek().kind in (Kind.STRING, Kind.BODY):
        span = reader.take().value
        return f"{span} {reader.name(_SPAN)}" if span.strip().isdigit() else span
    if reader.peek().kind is not Kind.NUMBER:
        reader.refuse(expected=_SPAN)
    return f"{reader.take().value} {reader.name('seconds, minutes, hours, days or weeks')}"
