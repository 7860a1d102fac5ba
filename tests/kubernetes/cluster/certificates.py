"""A certificate authority of the cluster's own, kept by the ``openssl`` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

# Of no use after the test run; long enough for a machine whose clock is off.
DAYS = "30"


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; everything lies in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.own = Certificate(folder / "ca.crt", folder / "ca.key")
        _make_key(self.own.key)
        _openssl(
            "req", "-x509", "-new", "-key", self.own.key, "-sha256", "-days", DAYS, "-subj", "/CN=test-cluster",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-out", self.own.certificate,
        )  # fmt: skip

    def issue(
        self, name: str, user: str, *, groups: tuple[str, ...] = (), addresses: tuple[str, ...] = ()
    ) -> Certificate:
        """A certificate for a user, or for a server at these addresses (``IP:…``, ``DNS:…``)."""
        stem = self._folder / name
        made = Certificate(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        lines = [
            "basicConstraints=CA:FALSE",
            "keyUsage=critical,digitalSignature,keyEncipherment",
            "extendedKeyUsage=clientAuth,serverAuth",
            "authorityKeyIdentifier=keyid",
            "subjectKeyIdentifier=hash",
            *([f"subjectAltName={','.join(addresses)}"] if addresses else []),
        ]
        extensions.write_text("\n".join(lines) + "\n")
        _make_key(made.key)
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        _openssl("req", "-new", "-key", made.key, "-subj", subject, "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.own.certificate, "-CAkey", self.own.key, "-CAcreateserial",
            "-days", DAYS, "-sha256", "-extfile", extensions, "-out", made.certificate,
        )  # fmt: skip
        return made

    def signing_key(self, name: str) -> Certificate:
        """A key pair without a certificate, for tokens of service accounts; the public half stands in its place."""
        pair = Certificate(self._folder / f"{name}.pub", self._folder / f"{name}.key")
        _make_key(pair.key)
        _openssl("ec", "-in", pair.key, "-pubout", "-out", pair.certificate)
        return pair


def _make_key(path: Path) -> None:
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")
