"""What can be told of an image without pulling it: which nodes have it, who cannot have it now, and what is missing for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lancegpu_sql.errors import ClusterForbidden
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.images import ImageName, parse_image
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.fields import entries, mapping, text
from lancegpu_sql.placement.kubernetes.lifecycle import IMAGE_REASONS, held_up
from lancegpu_sql.placement.kubernetes.wording import count, listed, quoted

Stock = Mapping[str, frozenset[ImageName]]
"""The images that each node has, by its name; of many, a kubelet tells the largest 50."""


@dataclass(frozen=True)
class ImageCheck:
    """What is known of an image beforehand.

    Parameters
    ----------
    pullable
        False where it is known that it cannot be pulled, True where all nodes have it; None where it shows only at a start.
    words
        The same for people.
    """

    pullable: bool | None
    words: str


def stock_of(cluster: Cluster) -> Stock | None:
    """Return which images the nodes have; None where that cannot be seen."""
    try:
        nodes, _ = cluster.list("Node")
    except ClusterForbidden:
        return None
    return {
        text(mapping(node, "metadata").get("name")): frozenset(
            name
            for one in entries(mapping(node, "status").get("images"))
            for name in map(_parsed, one.get("names") or ())
            if name is not None
        )
        for node in nodes
    }


def check_image(
    cluster: Cluster, seen: ClusterView, stock: Stock | None, gpu_class: GpuClass, image: str, nodes: Collection[str]
) -> ImageCheck:
    """Say what is known of the image of a class on the nodes of its pool."""
    troubled = next(
        (held for pod in seen.pods if (held := held_up(pod)) and held.reason in IMAGE_REASONS and held.image == image),
        None,
    )
    if troubled is not None:
        return ImageCheck(False, f"a pod cannot have it now ({troubled.reason}): {quoted(troubled.message)}")
    has = [node for node in nodes if stock is not None and _parsed(image) in stock.get(node, ())]
    if has and len(has) == len(nodes):
        return ImageCheck(True, f"on {'its node' if len(nodes) == 1 else f'all {len(nodes)} nodes'} already")
    where = f"on {len(has)} of {count(len(nodes), 'node')} already; " if nodes and stock is not None else ""
    missing = [name for name in gpu_class.image_pull_secrets if _is_missing(cluster, name)]
    if missing:
        secrets = f"{'Secret' if len(missing) == 1 else 'Secrets'} {listed(missing)}"
        return ImageCheck(None, f"{where}image_pull_secrets names the {secrets}, which the namespace does not have")
    return ImageCheck(None, f"{where}whether it can be pulled shows at the first start")


def _is_missing(cluster: Cluster, secret: str) -> bool:
    try:
        return cluster.get("Secret", secret) is None
    except ClusterForbidden:
        return False


def _parsed(image: object) -> ImageName | None:
    """Return an image's name as two of the same image have it; None for what is none."""
    try:
        name = parse_image(str(image))
    except ValueError:
        return None
    if name.digest is not None:
        return replace(name, tag=None)
    return replace(name, tag=name.tag or "latest")
