"""Kubeconfig files: who talks to which API server, and how it is proven."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.certificates import Certificate


@dataclass(frozen=True)
class Access:
    """The address of an API server, and what identifies a user there."""

    server: str
    tls: ssl.SSLContext
    token: str | None


def write(
    path: Path, server: str, authority: Path, *, token: str | None = None, user: Certificate | None = None
) -> Path:
    """Write one for a token or a certificate, as JSON, which is YAML; only its owner may read it."""
    proof: dict[str, str] = {}
    if token is not None:
        proof["token"] = token
    if user is not None:
        proof |= {"client-certificate": str(user.certificate), "client-key": str(user.key)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": proof}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
    return path


def read(path: Path) -> Access:
    """Read one that names a token or a certificate; programs that hand out tokens are not run."""
    document = _parsed(path)
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    tls = ssl.create_default_context(
        cafile=_beside(path, cluster.get("certificate-authority")),
        cadata=_decoded(cluster.get("certificate-authority-data")),
    )
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    token = user.get("token")
    if "client-certificate" in user:
        tls.load_cert_chain(str(_beside(path, user["client-certificate"])), _beside(path, user["client-key"]))
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{_decoded(user['client-certificate-data'])}\n{_decoded(user['client-key-data'])}")
            file.flush()
            tls.load_cert_chain(file.name)
    elif token is None:
        raise ValueError(
            f"{path}: the user has neither a token nor a certificate; make one with `kubectl create token`"
        )
    return Access(cluster["server"].rstrip("/"), tls, token)


def _parsed(path: Path) -> Any:
    text = path.read_text()
    if text.lstrip().startswith("{"):
        return json.loads(text)
    import yaml  # only a file that others wrote is not JSON

    return yaml.safe_load(text)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _beside(path: Path, named: str | None) -> str | None:
    return None if named is None else str(path.parent / named)


def _decoded(data: str | None) -> str | None:
    return None if data is None else base64.b64decode(data).decode()
