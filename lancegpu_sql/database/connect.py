"""Opens a database: its tables, its catalog, a place for its workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lancegpu_sql.catalog.connection import is_postgresql
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import arguments
from lancegpu_sql.database.catalog_place import catalog_place, keep_catalog_place, kept_at
from lancegpu_sql.database.database import Database
from lancegpu_sql.database.gpu_classes import adopt_gpu_classes
from lancegpu_sql.database.identity import database_id
from lancegpu_sql.database.services import PRIVATE_FOLDER, Services
from lancegpu_sql.errors import InvalidInput, StorageError
from lancegpu_sql.jobs.housekeeping import prune, settle_dead
from lancegpu_sql.jobs.runner import JobRunner
from lancegpu_sql.placement.interface import Placement
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables.store import TableStore
from lancegpu_sql.workers import WorkerPool

_OBJECT_STORES = ("s3://", "gs://", "az://", "abfss://")


def connect(
    uri: str | os.PathLike[str],
    *,
    gpu_classes: str | os.PathLike[str] | None = None,
    placement: Placement | None = None,
    settings: Settings | None = None,
    **overrides: Any,
) -> Database:
    """Open a database, or make one.

    Parameters
    ----------
    uri
        A local folder. It stays an ordinary LanceDB directory: `lancedb` and `lance` open its tables.
    gpu_classes
        An operator's YAML file of GPU classes. A database without any takes them over; one that has the same is left
        as it is; one that has others refuses. Also read from ``LANCEGPU_GPU_CLASSES``.
    placement
        Where workers run. If left out: pods, where the setting `kubernetes_namespace` is given, or else this machine.
    settings
        Every knob; read from ``LANCEGPU_…`` environment variables if left out.
    **overrides
        Single settings, such as ``worker_idle_seconds=5``, or ``catalog="postgresql://user@host/name"``.

    Raises
    ------
    InvalidInput
        The uri is no local folder, a setting is unknown or does not suit, or the database's catalog is another one.
    InvalidPlacement
        The settings of a cluster do not suit.
    InvalidGpuClass, GpuClassesDiffer
        The file is wrong, or says something else than the database; `lancegpu classes apply` changes what it says.
    StorageError, CatalogError
        The folder or the catalog cannot be used; `CatalogError.retryable` where it may work later by itself.
    """
    chosen = _settings(settings, gpu_classes, overrides)
    folder = _local_folder(uri, chosen)
    place = placement or _placement(chosen)
    private = folder / PRIVATE_FOLDER
    _make_private(private)
    identity = database_id(private)
    catalog = Catalog.open(
        catalog_place(private, chosen.catalog),
        busy_timeout_seconds=chosen.catalog_busy_timeout_seconds,
        database=identity,
        kept_at=kept_at(private),
    )
    try:
        keep_catalog_place(private, catalog.place)
        if chosen.gpu_classes is not None:
            adopt_gpu_classes(catalog, chosen.gpu_classes)
        settle_dead(catalog)
        prune(catalog, private, chosen.job_retention_days)
    except BaseException:
        catalog.close()
        raise
    place.attach(identity)
    return Database(
        Services(
            folder=private,
            tables=TableStore(folder),
            catalog=catalog,
            placement=place,
            owns_placement=placement is None,
            pool=WorkerPool(place, worker_idle_seconds=chosen.worker_idle_seconds, rungs=catalog, batches=catalog),
            runner=JobRunner(
                catalog, private, lease_seconds=chosen.lease_seconds, log_limit_bytes=chosen.job_log_bytes
            ),
            settings=chosen,
        )
    )


def _placement(settings: Settings) -> Placement:
    if settings.kubernetes_namespace is None:
        return LocalPlacement(runtime_folder=settings.runtime_folder)
    # Loaded where a cluster is used.
    from lancegpu_sql.placement.kubernetes import KubernetesPlacement, options_of

    return KubernetesPlacement(settings.kubernetes_namespace, **options_of(settings))


def _settings(
    settings: Settings | None, gpu_classes: str | os.PathLike[str] | None, overrides: dict[str, Any]
) -> Settings:
    if gpu_classes is not None:
        overrides["gpu_classes"] = Path(arguments.path(gpu_classes, "gpu_classes"))
    if settings is None:
        return Settings.load(**overrides)
    if not isinstance(settings, Settings):
        raise InvalidInput(
            "settings= takes lancegpu_sql.settings.Settings as a whole; write single settings as keywords, such as "
            "connect(uri, max_workers=4)"
        )
    return Settings.load({}, **settings.model_dump(exclude_unset=True), **overrides) if overrides else settings


def _local_folder(uri: str | os.PathLike[str], settings: Settings) -> Path:
    text = arguments.path(uri, "the folder of a database")
    if text.startswith(_OBJECT_STORES) and not is_postgresql(settings.catalog or ""):
        raise InvalidInput(
            f"{text!r} is in an object store, which can hold no catalog: that must be in PostgreSQL, as in "
            f"connect({text!r}, catalog='postgresql://user@host/name'). And this release opens databases in local folders "
            "only: name one, on a volume that all agents share",
            uri=text,
        )
    if "://" in text:
        raise InvalidInput(f"{text!r} is no local folder; this release opens databases in local folders only", uri=text)
    if not text:
        raise InvalidInput("connect() takes the folder of a database, not an empty string", uri=text)
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as exc:
        raise InvalidInput(f"{text!r} names the home of a user whom this machine does not know", uri=text) from exc


def _make_private(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)  # the database itself is shared as the user's umask says
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    except OSError as exc:
        raise StorageError(
            f"the database's folder {folder} cannot be used: {exc.strerror}. It must be a folder that you may write to: "
            "this release writes there even where tables are only read. lance and lancedb read them without",
            path=str(folder),
        ) from exc
