"""The catalog in PostgreSQL: how its server is reached, where in it a database's catalog stands, what its errors mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.rows import json_of

DRIVER = "psycopg"

_CONNECT_SECONDS = 10

# A process that is stopped, or whose host is gone, must not keep the others from writing: the server undoes what it was at.
_SESSION = {
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

# The same towards a server whose host is gone; a Unix socket takes no notice.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}

_NUL_AS = "␀"
"""What stands for the character of code 0, which PostgreSQL's texts cannot hold and messages of user code may."""


@dataclass(frozen=True)
class Trouble:
    """What an error of the server means, in words that suit after "cannot be used:"; `retryable`: it may pass by itself."""

    told: str
    retryable: bool = False


# By SQLSTATE, or the beginning of one: https://www.postgresql.org/docs/current/errcodes-appendix.html
_BY_STATE = {
    "53100": Trouble("the server's disk is full. What was committed is kept; free some space and try again", True),
    "53300": Trouble(
        "the server has as many connections as it may have; try again, or raise its max_connections", True
    ),
    "53": Trouble("the server lacks room. What was committed is kept; try again", True),
    "55P03": Trouble("other processes kept it locked for too long; try again", True),
    "57014": Trouble(
        "the server ended the statement (its statement_timeout, or an operator). Nothing was changed", True
    ),
    "57P": Trouble("the server shuts down, or has just started. What was committed is kept; try again", True),
    "25P03": Trouble("this process stood still within a change for too long, which was undone; try again", True),
    "25006": Trouble(
        "this server only reads, as a standby does; name the primary in the URL (target_session_attrs=read-write)"
    ),
    "42501": Trouble(
        "its user may not do that. The user makes a schema of its own for each database, which it owns from then on: "
        "GRANT CREATE ON DATABASE … TO …"
    ),
    "40": Trouble("other processes changed the same at the same time; try again", True),
    "08": Trouble("the connection to the server was lost. What was committed is kept; try again", True),
}

# While a connection is made the driver tells no SQLSTATE, only the server's words.
_BY_WORDS = {
    "password authentication failed": Trouble("the server does not take this user with this password; correct the URL"),
    "no password supplied": Trouble(
        "the server asks for a password; put one into the URL, or into ~/.pgpass or the variable PGPASSWORD"
    ),
    "no pg_hba.conf entry": Trouble(
        "the server lets nobody in from this host as this user (its pg_hba.conf); ask its operator"
    ),
    "does not exist": Trouble(
        "the server has no such database or user; make it (createdb, createuser), or correct the URL"
    ),
    "too many clients": _BY_STATE["53300"],
    "remaining connection slots": _BY_STATE["53300"],
    "is starting up": _BY_STATE["57P"],
    "is shutting down": _BY_STATE["57P"],
}


def postgresql_engine(url: sa.URL, schema: str, busy_timeout_seconds: float) -> sa.Engine:
    """Return the engine of a catalog that stands in a schema of its own.

    Parameters
    ----------
    url
        Of the server; what its query says wins over what is set here.
    schema
        Where the tables are; it need not be there yet.
    busy_timeout_seconds
        How long a change waits for another process's.
    """
    # "search_path" and the others are set as the session starts: no statement is spent on them.
    options = {"search_path": schema, "lock_timeout": f"{max(1, round(busy_timeout_seconds * 1000))}ms", **_SESSION}
    given = url.query.get("options", "")
    told = [*([given] if isinstance(given, str) else given), *(f"-c {name}={value}" for name, value in options.items())]
    defaults: dict[str, Any] = {
        "connect_timeout": _CONNECT_SECONDS,
        "fallback_application_name": "lancegpu",
        **_KEEPALIVES,
    }
    engine = sa.create_engine(
        url.difference_update_query(["options"]),
        connect_args={
            **{name: value for name, value in defaults.items() if name not in url.query},
            "options": " ".join(one for one in told if one),
        },
        pool_pre_ping=True,
        pool_timeout=busy_timeout_seconds,
        json_deserializer=json_of,
        hide_parameters=True,
    )
    if url.get_driver_name() == DRIVER:
        sa.event.listen(engine, "connect", _take_every_text)
    return engine


def _take_every_text(driver: Any, _record: object) -> None:
    from psycopg.types.string import StrDumper

    class Dumper(StrDumper):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", _NUL_AS) if "\0" in obj else obj)

    driver.adapters.register_dumper(str, Dumper)


def wait_for_turn(connection: sa.Connection, schema: str) -> None:
    """Wait until no other transaction writes to the catalog, as SQLite has it; the lock goes with the transaction."""
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"lancegpu catalog {schema}",))


def takes_turn(connection: sa.Connection, what: str) -> bool:
    """Take the session's turn to do something, unless another session has it; tell whether it has it now."""
    taken = connection.exec_driver_sql("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (f"lancegpu {what}",))
    return bool(taken.scalar())


def make_schema(connection: sa.Connection, schema: str) -> None:
    """Make the place of the tables where there is none; one that is there needs no right to make any."""
    if connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).first() is None:
        connection.execute(sa.schema.CreateSchema(schema))


def trouble(cause: BaseException) -> Trouble:
    """Return what an error of the driver means."""
    words = " ".join(str(cause).split())
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        known = next((known for start, known in _BY_STATE.items() if state.startswith(start)), None)
        return Trouble(f"{type(cause).__name__}: {words}") if known is None else _with_words(known, words)
    known = next((known for part, known in _BY_WORDS.items() if part in words), None)
    if known is not None:
        return _with_words(known, words)
    if "FATAL" in words:
        return Trouble(f"the server refused the connection ({words})")
    return Trouble(
        f"its server does not answer; check that it runs and that the URL names it, and try again ({words})",
        retryable=True,
    )


def is_beyond_limits(cause: BaseException) -> bool:
    """Whether a value was larger than its column can hold."""
    return getattr(cause, "sqlstate", None) == "22003"


def _with_words(known: Trouble, words: str) -> Trouble:
    return Trouble(f"{known.told} ({words})", known.retryable)
