"""Whether a container answers, by its readiness probe."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def passes(probe: Document, container: Document, pod_ip: str) -> bool:
    """One try of a ``tcpSocket`` or ``httpGet`` probe."""
    seconds = float(probe.get("timeoutSeconds", 1))
    action = probe.get("tcpSocket") or probe["httpGet"]
    host, port = action.get("host") or pod_ip, _port(action["port"], container)
    try:
        if "tcpSocket" in probe:
            socket.create_connection((host, port), seconds).close()
            return True
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            connection.request("GET", action.get("path", "/"))
            return 200 <= connection.getresponse().status < 400
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


def _port(named: int | str, container: Document) -> int:
    if isinstance(named, int):
        return named
    return int(next(port["containerPort"] for port in container.get("ports", ()) if port.get("name") == named))
