"""The catalog's Functions: immutable versions, their payloads, and the present placement of each Function."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion
from lancegpu_sql.catalog.rows import fields_of, value_of
from lancegpu_sql.catalog.schema import function_versions, functions
from lancegpu_sql.errors import FunctionNotFound

# What the tables keep in columns of their own, and so not in a version's definition.
_OWN_COLUMNS = frozenset({"name", "version", "digest", "placement"})

_CPU_WORKERS = ""
"""Stands where a GPU class's name does; no class has it."""

_NAMES_TOLD = 20
"""Of how many Functions the names stand in an error."""

_versions = sa.select(
    functions.c.name,
    function_versions.c.version,
    function_versions.c.digest,
    function_versions.c.definition,
    functions.c.placement,
).join_from(functions, function_versions)

_newest = (
    sa.select(function_versions.c.function_key, sa.func.max(function_versions.c.version).label("version"))
    .group_by(function_versions.c.function_key)
    .subquery()
)
# Put together once: every query asks for it.
_latest_versions = _versions.join(
    _newest,
    sa.and_(
        _newest.c.function_key == function_versions.c.function_key,
        _newest.c.version == function_versions.c.version,
    ),
).order_by(functions.c.key)


class FunctionStore:
    """Functions by name, whatever its case; a Function keeps the spelling of its first registration."""

    _connection: CatalogConnection

    def add_function(self, version: FunctionVersion, payload: bytes) -> FunctionVersion:
        """Keep a version under the next free number and return it as kept.

        A digest that the Function has already is that version: it is returned as it stands, with its present placement.
        A number is never given twice, not even after its version was dropped. The number in `version` is ignored.
        """
        key = version.name.casefold()

        def work(connection: sa.Connection) -> FunctionVersion:
            function = connection.execute(
                sa.select(functions).where(functions.c.key == key).with_for_update()
            ).one_or_none()
            if function is None:
                name, number = version.name, 1
                connection.execute(functions.insert().values(key=key, name=name, next_version=1, placement={}))
            else:
                name, number = function.name, function.next_version
                row = connection.execute(_with_digest(key, version.digest)).mappings().one_or_none()
                if row is not None:
                    return _function_version(row)
                if not connection.execute(_versions.where(functions.c.key == key).limit(1)).first():
                    name = version.name
            kept = version.model_copy(update={"name": name, "version": number})
            connection.execute(
                function_versions.insert().values(
                    function_key=key,
                    version=number,
                    digest=kept.digest,
                    definition=kept.model_dump(mode="json", exclude=set(_OWN_COLUMNS)),
                    payload=payload,
                )
            )
            connection.execute(
                functions.update()
                .where(functions.c.key == key)
                .values(name=name, next_version=number + 1, placement=kept.placement.model_dump(mode="json"))
            )
            return kept

        return self._connection.write(work)

    def function(self, name: str, version: int | None = None) -> FunctionVersion:
        """Return one version, the latest where none is given.

        Raises
        ------
        FunctionNotFound
            No such Function, or not that version of it.
        """
        query = _versions.where(functions.c.key == name.casefold())
        if version is not None:
            query = query.where(function_versions.c.version == version)
        with self._connection.reading() as connection:
            row = (
                connection.execute(query.order_by(function_versions.c.version.desc()).limit(1)).mappings().one_or_none()
            )
        if row is None:
            raise self._not_found(name, version)
        return _function_version(row)

    def functions(self) -> list[FunctionVersion]:
        """Return the latest version of every Function, by name."""
        with self._connection.reading() as connection:
            return [_function_version(row) for row in connection.execute(_latest_versions).mappings()]

    def secret_sources(self) -> frozenset[str]:
        """Return where the Functions that there are have their secrets from."""
        has_versions = sa.exists().where(function_versions.c.function_key == functions.c.key)
        with self._connection.reading() as connection:
            placements = connection.execute(sa.select(functions.c.placement).where(has_versions)).scalars().all()
        return frozenset(source for placement in placements for source in (placement.get("secrets") or {}).values())

    def function_versions(self, name: str) -> list[FunctionVersion]:
        """Return every version of a Function, oldest first.

        Raises
        ------
        FunctionNotFound
            No such Function.
        """
        query = _versions.where(functions.c.key == name.casefold()).order_by(function_versions.c.version)
        with self._connection.reading() as connection:
            found = [_function_version(row) for row in connection.execute(query).mappings()]
        if not found:
            raise self._not_found(name, None)
        return found

    def find_function(self, name: str, digest: str) -> FunctionVersion | None:
        """Return the version with that content, None where it is not registered."""
        with self._connection.reading() as connection:
            row = connection.execute(_with_digest(name.casefold(), digest)).mappings().one_or_none()
        return None if row is None else _function_version(row)

    def payload(self, name: str, version: int) -> bytes:
        """Return what a worker loads the version from.

        Raises
        ------
        FunctionNotFound
            No such version.
        """
        query = sa.select(function_versions.c.payload).where(
            function_versions.c.function_key == name.casefold(), function_versions.c.version == version
        )
        with self._connection.reading() as connection:
            payload: bytes | None = connection.execute(query).scalar_one_or_none()
        if payload is None:
            raise self._not_found(name, version)
        return payload

    def replace_payload(self, name: str, version: int, payload: bytes) -> None:
        """Keep another packing of the same content: its modules may stand in another folder by now.

        Raises
        ------
        FunctionNotFound
            No such version.
        """
        change = (
            function_versions.update()
            .where(function_versions.c.function_key == name.casefold(), function_versions.c.version == version)
            .values(payload=payload)
        )
        with self._connection.writing() as connection:
            found = connection.execute(change).rowcount
        if not found:
            raise self._not_found(name, version)

    def cpu_rung(self, name: str, version: int) -> str | None:
        """Return the size on which the version's CPU workers start; None where none was kept, or there is no such version."""
        query = sa.select(function_versions.c.cpu_rung).where(*_is(name, version))
        with self._connection.reading() as connection:
            rung: str | None = connection.execute(query).scalar_one_or_none()
        return rung

    def keep_cpu_rung(self, name: str, version: int, rung: str) -> None:
        """Keep the size on which the version's CPU workers start; a version that was dropped meanwhile needs none."""
        with self._connection.writing() as connection:
            connection.execute(function_versions.update().where(*_is(name, version)).values(cpu_rung=rung))

    def fits_rows(self, name: str, version: int, gpu_class: str | None) -> int | None:
        """Return how many rows of one call fit into the memory of a class's workers (None: CPU workers), if that is known."""
        query = sa.select(function_versions.c.fits_rows).where(*_is(name, version))
        with self._connection.reading() as connection:
            kept = connection.execute(query).scalar_one_or_none()
        found = (kept or {}).get(gpu_class or _CPU_WORKERS)
        return found if isinstance(found, int) else None

    def keep_fits_rows(self, name: str, version: int, gpu_class: str | None, rows: int) -> None:
        """Keep how many rows of one call fit; fewer win over more, and a version that was dropped meanwhile needs none."""
        place = gpu_class or _CPU_WORKERS
        with self._connection.writing() as connection:
            query = sa.select(function_versions.c.fits_rows).where(*_is(name, version)).with_for_update()
            kept = connection.execute(query).scalar_one_or_none() or {}
            fitting = kept | {place: min(rows, kept.get(place, rows))}
            connection.execute(function_versions.update().where(*_is(name, version)).values(fits_rows=fitting))

    def set_function_placement(self, name: str, placement: FunctionPlacement) -> None:
        """Say where all versions of a Function may run from now on.

        Raises
        ------
        FunctionNotFound
            No such Function.
        """
        key = name.casefold()
        has_versions = sa.exists().where(function_versions.c.function_key == key)
        change = (
            functions.update()
            .where(functions.c.key == key, has_versions)
            .values(placement=placement.model_dump(mode="json"))
        )
        with self._connection.writing() as connection:
            found = connection.execute(change).rowcount
        if not found:
            raise self._not_found(name, None)

    def drop_function(self, name: str, version: int | None = None) -> None:
        """Forget one version, or all of them; whether something uses them is for the caller to know.

        Raises
        ------
        FunctionNotFound
            No such Function, or not that version of it.
        """
        change = function_versions.delete().where(function_versions.c.function_key == name.casefold())
        if version is not None:
            change = change.where(function_versions.c.version == version)
        with self._connection.writing() as connection:
            found = connection.execute(change).rowcount
        if not found:
            raise self._not_found(name, version)

    def _told(self) -> str:
        """Say which Functions there are."""
        of_versions = functions.c.key.in_(sa.select(function_versions.c.function_key))
        query = sa.select(functions.c.name).where(of_versions).order_by(functions.c.key)
        with self._connection.reading() as connection:
            names = list(connection.execute(query).scalars())
        more = ", …" if len(names) > _NAMES_TOLD else ""
        return f"It has {', '.join(names[:_NAMES_TOLD])}{more}." if names else "Register it first: there is none yet."

    def _not_found(self, name: str, version: int | None) -> FunctionNotFound:
        with self._connection.reading() as connection:
            numbers = list(
                connection.execute(
                    sa.select(function_versions.c.version)
                    .where(function_versions.c.function_key == name.casefold())
                    .order_by(function_versions.c.version)
                ).scalars()
            )
        if numbers:
            listed = ", ".join(str(number) for number in numbers)
            told = f"Function {name!r} has no version {version}; it has {listed}."
        else:
            told = f"No Function named {name!r} is registered in this database. {self._told()}"
        return FunctionNotFound(told, function=name, version=version)


def _is(name: str, version: int) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return function_versions.c.function_key == name.casefold(), function_versions.c.version == version


def _with_digest(key: str, digest: str) -> sa.Select[Any]:
    return _versions.where(functions.c.key == key, function_versions.c.digest == digest)


def _function_version(row: sa.RowMapping) -> FunctionVersion:
    own = {name: row[name] for name in _OWN_COLUMNS}
    fields = {**fields_of(row["definition"]), **own}
    key = {"function_key": row["name"].casefold(), "version": row["version"]}
    return value_of(FunctionVersion, fields, table="function_versions", **key)
