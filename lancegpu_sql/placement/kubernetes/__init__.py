"""Workers as pods of a Kubernetes cluster: what is sent, what is watched, and what it means for a request.

Sole user of the cluster's client library, which loads when a cluster is first spoken to. API objects travel here as the
JSON that the server speaks. What a worker computes, and when, belongs elsewhere.
"""

from lancegpu_sql.placement.cpu_ladder import CpuRung
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig, options_of
from lancegpu_sql.placement.kubernetes.placement import KubernetesPlacement

__all__ = ["CpuRung", "KubernetesConfig", "KubernetesPlacement", "options_of"]
