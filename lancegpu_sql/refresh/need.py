"""Which worker a refresh needs, and how `apply` is to use it: Function, options and settings brought together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lancegpu_sql.apply import ApplyOptions
from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion, job_made_at
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import GpuClassNotFound, InvalidInput, InvalidQuery
from lancegpu_sql.functions.environment_store import environment_of
from lancegpu_sql.functions.gpu_needs import too_small
from lancegpu_sql.functions.secret_sources import check_allowed, withheld_variables
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.query.bound import bound_values
from lancegpu_sql.query.plans import Plans
from lancegpu_sql.refresh.request import RefreshOptions
from lancegpu_sql.refresh.target import Target
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables import TableStore
from lancegpu_sql.workers import FunctionLoad, WorkerNeed, WorkerPool


@dataclass(frozen=True)
class Resources:
    """What refreshes of one database share. `folder` is the database's private one."""

    tables: TableStore
    catalog: Catalog
    pool: WorkerPool
    settings: Settings
    folder: Path
    plans: Plans = field(default_factory=Plans)


def check_options(function: FunctionVersion, options: RefreshOptions) -> None:
    """Refuse options that do not suit the Function, before anything is done.

    Raises
    ------
    InvalidInput
        GPU options for a Function that uses none, or a `gpu_count` too small for one worker.
    """
    placement = function.placement
    if not placement.gpu:
        named = [name for name in ("gpu_class", "gpu_count") if getattr(options, name) is not None]
        if named:
            raise InvalidInput(
                f"{' and '.join(named)} given, but {function.name} uses no GPU; "
                f"register it with gpu=True, or leave {'them' if named[1:] else 'it'} out",
                function=function.name,
            )
    elif options.gpu_count is not None and options.gpu_count < placement.gpus:
        raise InvalidInput(
            f"gpu_count={options.gpu_count}, but one worker of {function.name} needs {placement.gpus} GPUs",
            function=function.name,
        )


def worker_need(
    resources: Resources, target: Target, function: FunctionVersion, options: RefreshOptions, job_id: str
) -> WorkerNeed:
    """Return what to ask the pool for.

    Raises
    ------
    InvalidInput
        The options do not suit the Function.
    GpuClassNotFound
        The database does not know the Function's GPU class.
    """
    check_options(function, options)
    return _need(
        resources.catalog,
        resources.settings,
        function,
        options,
        bound=target.declaration.bound,
        job_id=job_id,
        owner=f"refresh of {target.title}",
    )


def query_need(
    catalog: Catalog,
    settings: Settings,
    function: FunctionVersion,
    job_id: str,
    owner: str,
    options: RefreshOptions | None = None,
) -> WorkerNeed:
    """Return what to ask the pool for, for a call in a query.

    Raises
    ------
    InvalidQuery
        The Function needs values when it is made, and is called where none can be given.
    GpuClassNotFound
        The database does not know the Function's GPU class.
    """
    bound = bound_values(function)
    required = [each.name for each in function.init_parameters if each.required and each.name not in bound]
    if required:
        raise InvalidQuery(
            f"The Function {function.name!r} needs values for {', '.join(required)} when it is made, which cannot be given "
            "here: register it with default values for them.",
            function=function.name,
        )
    return _need(catalog, settings, function, options or RefreshOptions.of(), bound=bound, job_id=job_id, owner=owner)


def apply_options(settings: Settings, function: FunctionVersion, options: RefreshOptions) -> ApplyOptions:
    """Return how `apply` should go about it: a refresh's own options first, then the Function's, then the settings."""
    placement = function.placement
    caps = [settings.max_workers, options.max_workers]
    if options.gpu_count is not None:
        caps.append(options.gpu_count // placement.gpus)
    given = [cap for cap in caps if cap is not None]
    losses = options.max_worker_losses
    # Only finished parts can be published.
    part_rows = [options.publication_interval_rows or settings.publication_interval_rows, settings.max_part_rows]
    return ApplyOptions(
        batch_size=options.batch_size or placement.batch_size,
        part_target_seconds=options.part_target_seconds or settings.part_target_seconds,
        max_part_rows=min(filter(None, part_rows)),
        call_timeout_seconds=options.call_timeout_seconds or settings.call_timeout_seconds,
        max_workers=min(given) if given else None,
        max_worker_losses=settings.max_worker_losses if losses is None else losses,
        max_wait_seconds=options.max_wait_seconds or settings.max_wait_seconds,
        call_target_bytes=settings.call_target_bytes,
        in_flight_calls=settings.in_flight_calls,
        in_flight_bytes=settings.in_flight_bytes,
        outstanding_bytes=settings.read_ahead_bytes,
        error_policy=options.error_policy,
        retry=options.retry,
    )


def gpu_classes_for(
    catalog: Catalog, placement: FunctionPlacement, named: str | None = None
) -> tuple[GpuClass | None, tuple[GpuClass, ...]]:
    """Return the class to run on, the Function's own unless one is named, and those that may stand in for it.

    Raises
    ------
    GpuClassNotFound
        The database does not know it.
    InvalidInput
        Its GPUs have less memory than the Function needs.
    """
    if not placement.gpu:
        return None, ()
    wanted = named or placement.gpu_class or "default"
    classes = {record.name: record for record in catalog.gpu_classes()}
    if wanted not in classes:
        known = ", ".join(sorted(classes)) or "none"
        raise GpuClassNotFound(
            f"this database has no GPU class {wanted!r}; it knows: {known}. "
            "An operator adds one with `lancegpu classes apply FILE`",
            gpu_class=wanted,
        )
    chosen = GpuClass.from_spec(classes[wanted].spec)
    small = too_small(placement, wanted, chosen.gpu_memory_bytes)
    if small is not None:
        raise InvalidInput(f"the Function {small}: run it on another class", gpu_class=wanted)
    backups = [GpuClass.from_spec(classes[name].spec) for name in chosen.backup_classes if name in classes]
    return chosen, tuple(one for one in backups if too_small(placement, one.name, one.gpu_memory_bytes) is None)


def _need(
    catalog: Catalog,
    settings: Settings,
    function: FunctionVersion,
    options: RefreshOptions,
    *,
    bound: Mapping[str, Any],
    job_id: str,
    owner: str,
) -> WorkerNeed:
    placement = function.placement
    gpu_class, backups = gpu_classes_for(catalog, placement, options.gpu_class)
    on_cluster = settings.kubernetes_namespace is not None
    check_allowed(function.name, placement.secrets, settings.secret_sources, on_cluster=on_cluster)
    return WorkerNeed(
        load=FunctionLoad(
            function=function.name,
            version=function.version,
            digest=function.digest,
            payload=catalog.payload(function.name, function.version),
            bound=bound,
            output_type=function.output_type,
            concurrency=placement.concurrency,
            init_timeout_seconds=options.init_timeout_seconds or settings.init_timeout_seconds,
        ),
        gpu_class=gpu_class,
        gpus=placement.gpus if placement.gpu else 0,
        cpus=placement.cpus,
        env=function.env,
        environment=environment_of(function),
        image=placement.image,
        secrets=placement.secrets,
        withheld=withheld_variables({*catalog.secret_sources(), *(settings.storage_options or {}).values()}),
        job_id=job_id,
        owner=f"job {job_id} ({owner}, process {os.getpid()})",
        # Among the jobs that wait the oldest comes first, also where it was interrupted and asks anew.
        since=job_made_at(job_id),
        queue=options.queue,
        backups=backups,
    )
