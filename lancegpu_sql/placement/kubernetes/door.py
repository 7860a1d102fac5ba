"""Knocks at a worker's door until it opens: a pod that runs does not serve yet."""

from __future__ import annotations

import socket
import ssl
import threading

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
_KNOCK_SECONDS = 5.0


class NoAnswer(Exception):
    """Nothing answered in the time given; the cause is the last attempt's error."""


def await_door(
    host: str, port: int, *, root_pem: bytes, name: str, given_up: threading.Event, timeout_seconds: float
) -> None:
    """Return once `host` shows a certificate for `name`, or `given_up` is set.

    A worker binds its port when it is ready to answer, so a finished handshake is the worker itself, ready: an address
    alone could be another pod's by now.

    Raises
    ------
    NoAnswer
        It did not in the time given.
    """
    trust = ssl.create_default_context(cadata=root_pem.decode())
    trust.set_alpn_protocols(["h2"])
    pause = _FIRST_PAUSE_SECONDS
    waited = 0.0
    while not given_up.is_set():
        try:
            with (
                socket.create_connection((host, port), _KNOCK_SECONDS) as knock,
                trust.wrap_socket(knock, server_hostname=name),
            ):
                return
        except (OSError, ssl.SSLError) as exc:
            # A refusal comes at once. Silence is a network that leads nowhere.
            waited += _KNOCK_SECONDS if isinstance(exc, TimeoutError) else pause
            if waited >= timeout_seconds:
                raise NoAnswer(f"{host} port {port}: {exc}") from exc
        given_up.wait(pause)
        pause = min(_LONGEST_PAUSE_SECONDS, pause * 1.5)
