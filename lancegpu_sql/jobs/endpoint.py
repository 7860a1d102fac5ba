"""A page or two over HTTP, for those who watch an agent: no more of a web server than that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from lancegpu_sql.errors import InvalidInput, LanceGpuError

Page = Callable[[], tuple[int, str, str]]
"""Gives an HTTP status, a content type and a text."""

_REQUEST_SECONDS = 10.0


class Endpoint:
    """Serves pages by their path until it is closed.

    Parameters
    ----------
    host, port
        Where; port 0 takes a free one.
    pages
        By path.

    Raises
    ------
    InvalidInput
        The address cannot be had.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_SECONDS

            def do_GET(self) -> None:
                status, kind, text = _answer(pages, self.path)
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def version_string(self) -> str:
                return "lancegpu"

            def log_message(self, *_: Any) -> None:
                """Say nothing: a scraper comes every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as exc:
            raise InvalidInput(
                f"cannot listen on {host} port {port}: {exc.strerror or exc}", host=host, port=port
            ) from exc
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="lancegpu endpoint", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _answer(pages: Mapping[str, Page], path: str) -> tuple[int, str, str]:
    page = pages.get(path.partition("?")[0])
    if page is None:
        return 404, "text/plain; charset=utf-8", f"There are: {', '.join(pages)}\n"
    try:
        return page()
    except LanceGpuError as problem:
        return 503, "text/plain; charset=utf-8", f"{problem}\n"
