"""REFRESH COLUMN, what is shown of columns, schedules, GPU classes and jobs, and what is asked of a job."""

from __future__ import annotations

from lancegpu_sql.sql.statements.fault import fault
from lancegpu_sql.sql.statements.model import (
    CancelJob,
    DescribeJob,
    Name,
    Option,
    Options,
    PauseJob,
    RefreshColumn,
    ResumeJob,
    ShowColumnsStatus,
    ShowErrors,
    ShowEvents,
    ShowFunctions,
    ShowGpuClasses,
    ShowJobs,
    ShowSchedules,
    ShowTables,
    Statement,
)
from lancegpu_sql.sql.statements.options import known, options
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind

_JOB = "the id of a job in quotes"
_TABLE = "the name of a table"
SHOWN = (
    "TABLES",
    "FUNCTIONS",
    "GPU CLASSES",
    "COLUMNS STATUS FOR",
    "MATERIALIZED VIEWS",
    "SCHEDULES",
    "JOBS",
    "ERRORS FOR JOB",
    "ERRORS FOR TABLE",
    "EVENTS FOR JOB",
)


def refresh(reader: Reader) -> Statement:
    """Read what follows REFRESH."""
    reader.keywords("COLUMN")
    column = reader.name("the name of a computed column")
    reader.keywords("ON")
    if reader.sees("TABLE") and reader.peek(1).is_name:
        reader.keywords("TABLE")
    table = reader.dotted_name(_TABLE)
    where = None
    if reader.accept("WHERE"):
        first = reader.at
        where = reader.text_until(lambda: reader.sees("WITH"), "a condition")
        _refuse_parameters(reader, first)
    elif not (reader.ended or reader.sees("WITH")):
        reader.refuse(expected=("WHERE", "WITH", "the end of the statement"))
    given = options(reader)
    reader.end()
    for one in given:
        if one.name == "where":
            raise fault(reader.whole, one.position, "The condition stands before the options", expected="WHERE …")
    rest, wait = split_wait(reader, given)
    return RefreshColumn(
        text=reader.text,
        place=reader.start,
        table=table,
        column=column,
        where=where,
        options=rest,
        wait=wait,
    )


def _refuse_parameters(reader: Reader, first: int) -> None:
    """Refuse values that are given beside the text: the job that is made of it is carried out later, without them."""
    end = reader.at
    reader.go_to(first)
    while reader.at < end:
        if reader.peek().kind is Kind.PARAMETER:
            reader.refuse("The condition of a refresh stands in its job as it is written", expected="the value itself")
        reader.take()


def show(reader: Reader) -> Statement | None:
    """Read what follows SHOW, where it is one of our statements."""
    ours = _shown(reader)
    if ours is not None:
        reader.end()
    return ours


def _shown(reader: Reader) -> Statement | None:
    text, place = reader.text, reader.start
    if reader.peek(1).kind is Kind.END:
        if reader.accept("TABLES"):
            return ShowTables(text=text, place=place)
        if reader.accept("FUNCTIONS"):
            return ShowFunctions(text=text, place=place)
    if reader.accept("GPU"):
        reader.keywords("CLASSES")
        return ShowGpuClasses(text=text, place=place)
    if reader.sees("COLUMNS") and not reader.sees("COLUMNS", "FROM"):
        reader.keywords("COLUMNS", "STATUS", "FOR")
        reader.accept("TABLE")
        return ShowColumnsStatus(text=text, place=place, table=reader.dotted_name(_TABLE))
    if reader.accept("SCHEDULES"):
        return ShowSchedules(text=text, place=place, table=_of_table(reader))
    if reader.sees("JOBS") or reader.sees("ALL", "JOBS"):
        every = reader.accept("ALL")
        reader.keywords("JOBS")
        return ShowJobs(text=text, place=place, table=_of_table(reader), every=every)
    if reader.sees("EVENTS") and reader.peek(1).kind is not Kind.END:
        reader.keywords("EVENTS", "FOR", "JOB")
        return ShowEvents(text=text, place=place, job=reader.string(_JOB))
    if reader.sees("ERRORS") and reader.peek(1).kind is not Kind.END:
        return _show_errors(reader)
    return None


def _of_table(reader: Reader) -> Name | None:
    """Read FOR [TABLE | MATERIALIZED VIEW] t, if it comes next."""
    if reader.ended:
        return None
    reader.keywords("FOR")
    if not reader.accept("MATERIALIZED", "VIEW"):
        reader.accept("TABLE")
    return reader.dotted_name(_TABLE)


def _show_errors(reader: Reader) -> Statement:
    text, place = reader.text, reader.start
    reader.keywords("ERRORS", "FOR")
    if reader.accept("JOB"):
        return ShowErrors(text=text, place=place, job=reader.string(_JOB))
    if reader.accept("MATERIALIZED", "VIEW"):
        return ShowErrors(text=text, place=place, table=reader.dotted_name("the name of a materialized view"))
    if not reader.accept("TABLE"):
        reader.refuse(expected=("JOB", "TABLE", "MATERIALIZED VIEW"))
    table = reader.dotted_name(_TABLE)
    column = reader.name("the name of a computed column") if reader.accept("COLUMN") else None
    return ShowErrors(text=text, place=place, table=table, column=column)


def describe_job(reader: Reader) -> Statement:
    """Read what follows DESCRIBE JOB."""
    job = reader.string(_JOB)
    reader.end()
    return DescribeJob(text=reader.text, place=reader.start, job=job)


def ask_job(reader: Reader, verb: str) -> Statement:
    """Read what follows CANCEL, PAUSE or RESUME."""
    reader.keywords("JOB")
    job = reader.string(_JOB)
    if verb != "RESUME":
        reader.end()
        kind = CancelJob if verb == "CANCEL" else PauseJob
        return kind(text=reader.text, place=reader.start, job=job)
    given = options(reader)
    reader.end()
    known(reader.whole, given, ("wait",))
    return ResumeJob(text=reader.text, place=reader.start, job=job, wait=split_wait(reader, given)[1])


def split_wait(reader: Reader, given: Options) -> tuple[Options, bool]:
    """Return options without `wait`, and what that says: true where it is not given."""
    rest = tuple(one for one in given if one.name != "wait")
    chosen: Option | None = next((one for one in given if one.name == "wait"), None)
    if chosen is None:
        return rest, True
    if not isinstance(chosen.value, bool):
        raise fault(reader.whole, chosen.position, "wait says whether to wait for the end", expected=("true", "false"))
    return rest, chosen.value
