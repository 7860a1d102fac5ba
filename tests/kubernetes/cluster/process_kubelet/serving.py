"""The kubelet's own server: logs of pods and ways to their ports, over TLS, at an address that also reserves the node's subnet."""

from __future__ import annotations

import errno
import http.server
import random
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cluster.process_kubelet import websocket
from cluster.process_kubelet.pod import PodRun
from cluster.process_kubelet.port_forward import PortForward

Find = Callable[[str, str], PodRun | None]
PORT = 10250
SUBNETS = 250


def listen() -> tuple[http.server.ThreadingHTTPServer, str]:
    """A server on 127.77.N.254, and 127.77.N, whose addresses no other node of this machine gives to pods meanwhile."""
    first = random.randrange(SUBNETS)
    for number in range(SUBNETS):
        subnet = f"127.77.{(first + number) % SUBNETS}"
        try:
            return http.server.ThreadingHTTPServer((f"{subnet}.254", PORT), http.server.BaseHTTPRequestHandler), subnet
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError("every subnet of 127.77.0.0/16 is taken by a process node")


def serve(server: http.server.ThreadingHTTPServer, certificate: Path, key: Path, find: Find) -> None:
    """Answer from threads of its own until the process ends."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    # The handshake belongs to the thread of the connection: a client that is slow at it must not hold up others.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)

    class Bound(_Handler):
        find_pod = staticmethod(find)

    server.RequestHandlerClass = Bound
    threading.Thread(target=server.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rbufsize = 0  # what follows a request may be a WebSocket's
    find_pod: Find
    connection: ssl.SSLSocket

    def do_GET(self) -> None:
        """``/containerLogs/NAMESPACE/POD/CONTAINER``, or ``/portForward/NAMESPACE/POD``."""
        asked = urlsplit(self.path)
        match asked.path.strip("/").split("/"):
            case ["containerLogs", namespace, name, container]:
                self._send_log(namespace, name, container, parse_qs(asked.query))
            case ["portForward", namespace, name]:
                self._forward(namespace, name, parse_qs(asked.query))
            case _:
                self._answer(404, b"a process node has no such page\n")

    def _send_log(self, namespace: str, name: str, container: str, query: dict[str, list[str]]) -> None:
        run = self.find_pod(namespace, name)
        if run is None or not run.log(container).exists():
            self._answer(404, b"no such container, or it has not started\n")
            return
        printed = run.log(container).read_bytes()
        if "tailLines" in query:
            lines = printed.splitlines(keepends=True)
            printed = b"".join(lines[max(0, len(lines) - int(query["tailLines"][0])) :])
        if "limitBytes" in query:
            printed = printed[: int(query["limitBytes"][0])]
        self._answer(200, printed)

    def _forward(self, namespace: str, name: str, query: dict[str, list[str]]) -> None:
        run = self.find_pod(namespace, name)
        if run is None or self.headers.get("Upgrade", "").lower() != "websocket":
            self._answer(400, b"no such pod, or not a WebSocket: SPDY is not spoken here\n")
            return
        self.send_response(101)
        key, protocols = self.headers["Sec-WebSocket-Key"], self.headers.get("Sec-WebSocket-Protocol", "")
        for name_of_header, value in websocket.handshake(key, protocols).items():
            self.send_header(name_of_header, value)
        self.end_headers()
        self.close_connection = True
        ports = [int(number) for text in query["port"] for number in text.split(",")]
        PortForward(self.connection, run.ip, ports).run()

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing of what went well."""
