"""What a cluster has for the database's GPU classes."""

from __future__ import annotations

from lancegpu_sql.database.gpu_classes import known_gpu_classes
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import GpuClassNotFound, InvalidPlacement
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.checking import ClassCheck, check_classes


def checked_classes(services: Services, name: str | None) -> list[ClassCheck]:
    """Check one class, or all, against the cluster where workers run.

    Raises
    ------
    GpuClassNotFound
        There is none of that name.
    InvalidPlacement
        Workers run on no cluster, or it cannot be found.
    ClusterUnreachable, ClusterRefused
        The cluster does not answer, or not to us.
    """
    placement = services.placement
    if not isinstance(placement, KubernetesPlacement):
        raise InvalidPlacement(
            "there is no cluster to check against: workers run on this machine. Name the cluster's namespace where they "
            "should run, by --namespace or the setting kubernetes_namespace"
        )
    known = {one.name: one for one in known_gpu_classes(services.catalog)}
    if name is not None and name not in known:
        raise GpuClassNotFound(
            f"This database has no GPU class {name!r}; it has: {', '.join(known) or 'none'}.", gpu_class=name
        )
    return check_classes(placement.config, known.values() if name is None else [known[name]])
