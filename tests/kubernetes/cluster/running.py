"""The cluster that tests run against, as they hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from skips import Skip

from cluster.api import Api
from cluster.control_plane import ControlPlane


class RunningCluster:
    """A cluster of our own, or one that was there before."""

    def __init__(self, kubeconfig: Path, plane: ControlPlane | None = None) -> None:
        self.kubeconfig, self._plane = kubeconfig, plane
        self._api = Api(kubeconfig)

    def client(self) -> Api:
        """The API server, as an administrator."""
        return self._api

    @property
    def plane(self) -> ControlPlane:
        """The control plane: its users, its API server's restarts, its audit log. Skips the test where it is not ours."""
        if self._plane is None:
            pytest.skip(f"{Skip.NEEDS_CLUSTER}: one of our own, not --cluster=external")
        return self._plane
