"""CREATE, ALTER, REFRESH, SHOW, DESCRIBE and DROP MATERIALIZED VIEW."""

from __future__ import annotations

from lancegpu_sql.sql.statements.jobs import split_wait
from lancegpu_sql.sql.statements.model import (
    CreateView,
    DescribeView,
    DropView,
    DropViewSchedule,
    EnableViewSchedule,
    ExplainRefresh,
    RefreshView,
    SetViewSchedule,
    ShowViews,
    Statement,
)
from lancegpu_sql.sql.statements.options import options
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.schedules import schedule
from lancegpu_sql.sql.statements.tables import query_with_data

_VIEW = "the name of a materialized view"


def create_view(reader: Reader) -> Statement:
    """Read what follows CREATE MATERIALIZED VIEW."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    view = reader.dotted_name(_VIEW)
    given = options(reader)
    clause = schedule(reader) if reader.accept("SCHEDULE") else None
    if clause is not None and not given:  # they may follow it, as they do in ALTER
        given = options(reader)
    reader.keywords("AS")
    query, with_data = query_with_data(reader)
    reader.end()
    return CreateView(
        text=reader.text,
        place=reader.start,
        view=view,
        query=query,
        schedule=clause,
        options=given,
        with_data=with_data,
        if_not_exists=if_not_exists,
    )


def alter_view(reader: Reader) -> Statement:
    """Read what follows ALTER MATERIALIZED VIEW."""
    text, place, view = reader.text, reader.start, reader.dotted_name(_VIEW)
    verb = reader.one_of("SET", "DROP", "ENABLE", "DISABLE")
    reader.keywords("SCHEDULE")
    clause = schedule(reader) if verb == "SET" else None
    given = options(reader) if verb == "SET" else ()
    reader.end()
    if clause is not None:
        return SetViewSchedule(text=text, place=place, view=view, schedule=clause, options=given)
    if verb == "DROP":
        return DropViewSchedule(text=text, place=place, view=view)
    return EnableViewSchedule(text=text, place=place, view=view, enabled=verb == "ENABLE")


def refresh_view(reader: Reader) -> Statement:
    """Read what follows REFRESH MATERIALIZED VIEW."""
    view = reader.dotted_name(_VIEW)
    if not (reader.ended or reader.sees("WITH")):
        reader.refuse(expected=("WITH", "the end of the statement"))
    given, wait = split_wait(reader, options(reader))
    reader.end()
    return RefreshView(text=reader.text, place=reader.start, view=view, options=given, wait=wait)


def explain_refresh(reader: Reader) -> Statement:
    """Read what follows EXPLAIN REFRESH."""
    if reader.sees("COLUMN") and reader.peek(1).is_name:
        reader.refuse("SHOW COLUMNS STATUS FOR tells how many rows a column's refresh would compute", expected=_VIEW)
    reader.accept("MATERIALIZED", "VIEW")
    view = reader.dotted_name(_VIEW)
    reader.end()
    return ExplainRefresh(text=reader.text, place=reader.start, view=view)


def show_views(reader: Reader) -> Statement:
    """Read what follows SHOW MATERIALIZED VIEWS."""
    reader.end()
    return ShowViews(text=reader.text, place=reader.start)


def describe_view(reader: Reader) -> Statement:
    """Read what follows DESCRIBE MATERIALIZED VIEW."""
    view = reader.dotted_name(_VIEW)
    reader.end()
    return DescribeView(text=reader.text, place=reader.start, view=view)


def drop_view(reader: Reader) -> Statement:
    """Read what follows DROP MATERIALIZED VIEW."""
    if_exists = reader.accept("IF", "EXISTS")
    view = reader.dotted_name(_VIEW)
    reader.accept("RESTRICT")
    if reader.sees("CASCADE"):
        reader.refuse("A view that another one reads is not dropped with it", expected="the end of the statement")
    reader.end()
    return DropView(text=reader.text, place=reader.start, view=view, if_exists=if_exists)
