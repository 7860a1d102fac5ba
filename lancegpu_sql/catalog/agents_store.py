"""The catalog's agents: who serves the database, and how long each has said nothing."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.models import AgentRecord
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schema import UtcDateTime, agents

_NOW = sa.func.now(type_=UtcDateTime())


class AgentStore:
    """Agents by id. Times here are the catalog's own: a SQLite file's are its host's, PostgreSQL's its server's."""

    _connection: CatalogConnection

    def beat_agent(self, agent: AgentRecord) -> None:
        """Say that an agent lives; one that is not known, or was taken for dead, is added."""
        told = {
            "identity": agent.identity.model_dump(mode="json"),
            "kinds": list(agent.kinds),
            "concurrency": agent.concurrency,
            "lease_seconds": agent.lease_seconds,
            "started_at": agent.started_at,
            "seen_at": _NOW,
        }
        again = agents.update().where(agents.c.id == agent.id).values(**told, heartbeat=agents.c.heartbeat + 1)
        with self._connection.writing() as connection:
            if not connection.execute(again).rowcount:
                connection.execute(agents.insert().values(id=agent.id, heartbeat=1, **told))

    def agents(self) -> list[AgentRecord]:
        """Return the agents, those that began first first; some may be dead."""
        query = sa.select(agents, _NOW.label("now")).order_by(agents.c.started_at, agents.c.id)
        with self._connection.reading() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            value_of(
                AgentRecord,
                row | {"silent_seconds": (now - row["seen_at"]).total_seconds()},
                table="agents",
                id=row["id"],
            )
            for row in rows
            if (now := row.pop("now"))
        ]

    def remove_agents(self, heartbeats: Mapping[str, int | None]) -> None:
        """Forget agents, by id; one that has a heartbeat beside it only if it gave none since."""
        with self._connection.writing() as connection:
            for agent_id, heartbeat in heartbeats.items():
                gone = agents.delete().where(agents.c.id == agent_id)
                connection.execute(gone if heartbeat is None else gone.where(agents.c.heartbeat == heartbeat))
