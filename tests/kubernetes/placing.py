"""How tests make placements."""

from __future__ import annotations

from collections.abc import Callable

from lancegpu_sql.placement.kubernetes import KubernetesPlacement

Place = Callable[..., KubernetesPlacement]
