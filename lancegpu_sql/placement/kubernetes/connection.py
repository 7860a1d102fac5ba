"""Finds and renews credentials for a cluster, and opens connections to it.

Sole importer of the cluster's client library, which costs a second: it is imported when the first call is made. Of the
library only this is used; its model classes refuse what they do not know, and a newer server says such things.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig

TOKEN = "token"  # noqa: S105 - the name of a file
"""In which file of an account's folder its token is."""

# A server that is gone without a word is noticed: a watch may have nothing to say for minutes.
_KEEPALIVE_IDLE_SECONDS, _KEEPALIVE_EVERY_SECONDS, _KEEPALIVE_TRIES = 15, 5, 3


def open_connection(given: KubernetesConfig, account_folder: Path, *, inside: bool) -> Any:
    """Return the library's client for the cluster that is configured, or for the one that this process runs in.

    Raises
    ------
    InvalidPlacement
        There are no credentials for one.
    """
    from kubernetes import client, config
    from kubernetes.config.incluster_config import InClusterConfigLoader
    from urllib3.connection import HTTPConnection

    settings = client.Configuration()
    try:
        if inside:
            # It reads the token anew every minute, and a new one of these does when the old token is refused.
            authority = account_folder / "ca.crt"
            InClusterConfigLoader(str(account_folder / TOKEN), str(authority)).load_and_set(settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                # The library reads the variable once, when it is imported.
                config_file=given.kubeconfig or os.environ.get("KUBECONFIG"),
                context=given.context,
                client_configuration=settings,
                persist_config=False,
            )
    except (config.ConfigException, OSError, ValueError) as exc:
        raise InvalidPlacement(
            f"no credentials for a cluster were found: {exc}. Give kubeconfig= and context=, set KUBECONFIG, or run "
            "in a pod with a service account",
            kubeconfig=given.kubeconfig,
            context=given.context,
        ) from exc
    # Decided here, where it is known what was asked for; and a pool that drops connections costs a handshake each.
    settings.retries = False
    settings.connection_pool_maxsize = 32
    settings.socket_options = [
        *HTTPConnection.default_socket_options,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_TRIES),
    ]
    made = client.ApiClient(configuration=settings)
    _share_trust(made.rest_client.pool_manager)
    return made


def library_error() -> type[Exception]:
    """Return what the library raises for a request that it could not send."""
    from kubernetes.client.exceptions import ApiException

    error: type[Exception] = ApiException
    return error


def _share_trust(pool: Any) -> None:
    """Let all connections have one TLS context: by default each reads the certificates anew, and is a megabyte larger.

    It is complete before the first connection, which changes nothing of it any more: that would be no matter for threads.
    """
    from urllib3.util.ssl_ import create_urllib3_context

    kept = pool.connection_pool_kw
    trust = create_urllib3_context(cert_reqs=kept.get("cert_reqs"))
    authority, pem = kept.pop("ca_certs", None), kept.pop("ca_cert_data", None)
    certificate, key = kept.pop("cert_file", None), kept.pop("key_file", None)
    if authority or pem:
        trust.load_verify_locations(authority, cadata=pem)
    else:
        trust.load_default_certs()
    if certificate:
        trust.load_cert_chain(certificate, key)
    kept["ssl_context"] = trust
