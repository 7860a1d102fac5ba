"""Opens a database: its tables, its catalog, a place for its workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lancegpu_sql.database import arguments
from lancegpu_sql.database.database import Database
from lancegpu_sql.database.gpu_classes import adopt_gpu_classes
from lancegpu_sql.database.location import locate
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.functions.environment_store import EnvironmentStore
from lancegpu_sql.jobs.housekeeping import prune, settle_dead
from lancegpu_sql.jobs.runner import JobRunner
from lancegpu_sql.placement.interface import Placement
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.settings import Settings
from lancegpu_sql.workers import WorkerPool


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
        A local folder, or a prefix in an object store, as ``s3://bucket/name``, which needs a catalog in PostgreSQL. It
        stays an ordinary LanceDB directory: `lancedb` and `lance` open its tables.
    gpu_classes
        An operator's YAML file of GPU classes. A database without any takes them over; one that has the same is left
        as it is; one that has others refuses. Also read from ``LANCEGPU_GPU_CLASSES``.
    placement
        Where workers run. If left out: pods, where the setting `kubernetes_namespace` is given, or else this machine.
    settings
        Every knob; read from ``LANCEGPU_…`` environment variables if left out.
    **overrides
        Single settings, such as ``worker_idle_seconds=5``, ``catalog="postgresql://user@host/name"``, or, for an object
        store, ``storage_options={"aws_endpoint": "https://…", "aws_secret_access_key": "env:MY_SECRET"}``.

    Raises
    ------
    InvalidInput
        The uri names no such place, a setting is unknown or does not suit, or the database's catalog is another one.
    InvalidPlacement
        The settings of a cluster do not suit.
    InvalidGpuClass, GpuClassesDiffer
        The file is wrong, or says something else than the database; `lancegpu classes apply` changes what it says.
    StorageError, CatalogError
        The folder, the object store or the catalog cannot be used; `retryable` where it may work later by itself.
    """
    chosen = _settings(settings, gpu_classes, overrides)
    on_cluster = chosen.kubernetes_namespace is not None if placement is None else bool(placement.cpu_ladder)
    if on_cluster and chosen.secret_sources is None:
        # Who asks is not the user as whom workers run there, whoever made the placement.
        chosen = chosen.model_copy(update={"secret_sources": ""})
    environments = EnvironmentStore(
        chosen.environment_folder, build_packages=chosen.environment_builds, here=not on_cluster
    )
    place = placement or _placement(chosen, environments)
    located = locate(uri, chosen)
    catalog = located.catalog_kind.open(
        located.catalog_place(chosen.catalog),
        busy_timeout_seconds=chosen.catalog_busy_timeout_seconds,
        database=located.identity,
        kept_at=located.kept_at(),
    )
    try:
        located.keep_catalog_place(catalog.place)
        if chosen.gpu_classes is not None:
            adopt_gpu_classes(catalog, chosen.gpu_classes)
        settle_dead(catalog)
        prune(catalog, located.private, chosen.job_retention_days)
    except BaseException:
        catalog.close()
        raise
    place.attach(located.identity)
    return Database(
        Services(
            folder=located.private,
            tables=located.tables(),
            catalog=catalog,
            placement=place,
            owns_placement=placement is None,
            pool=WorkerPool(place, worker_idle_seconds=chosen.worker_idle_seconds, rungs=catalog, batches=catalog),
            runner=JobRunner(
                catalog, located.private, lease_seconds=chosen.lease_seconds, log_limit_bytes=chosen.job_log_bytes
            ),
            settings=chosen,
            environments=environments,
            scratch=located.scratch,
        )
    )


def _placement(settings: Settings, environments: EnvironmentStore) -> Placement:
    if settings.kubernetes_namespace is None:
        return LocalPlacement(runtime_folder=settings.runtime_folder, environments=environments)
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
