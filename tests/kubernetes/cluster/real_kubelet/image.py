"""Images for a node's pods, without a registry or a builder: an archive that holds next to nothing.

Programs, the interpreter and the environment come from this machine: `folders` are mounted into every container by the
runtime. So images are made in milliseconds, and what runs is always what is tested. What holds a pod's network gets no
such mounts; for it there is one program inside.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

WORKER_IMAGE = "localhost/lancegpu-worker:test"
"""Its user is nobody whom the image knows."""

ROOT_IMAGE = "localhost/lancegpu-as-root:test"
"""The same, made for root."""

SANDBOX_IMAGE = "localhost/pause:test"
"""What holds a pod's network."""

_USERS = {WORKER_IMAGE: "24601:24601", ROOT_IMAGE: "", SANDBOX_IMAGE: "24601:24601"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_USUAL_LINKS = ("bin", "sbin", "lib", "lib64")
_PROGRAM = "/usr/bin/sleep"


def folders(checkout: Path) -> list[str]:
    """The folders of this machine in which a worker finds its programs: the interpreter's, and the tested checkout."""
    plain = [Path("/", name) for name in _USUAL_LINKS]
    unlinked = [path for path in plain if path.is_dir() and not path.is_symlink()]
    wanted = [Path("/usr"), *unlinked, Path(sys.base_prefix), Path(sys.prefix), checkout]
    inside = [one for one in wanted if any(other in one.parents for other in wanted)]
    return [str(one) for one in dict.fromkeys(wanted) if one not in inside]


def write_images(archive: Path) -> None:
    """Write an OCI archive with all images, for ``ctr images import``."""
    layer = _layer()
    blobs = {_digest(layer): layer}
    manifests = []
    for name, user in _USERS.items():
        config = _add(blobs, _config(user, layer))
        manifest = _add(
            blobs,
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **_reference(layer)}],
            },
        )
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        manifests.append({"mediaType": "application/vnd.oci.image.manifest.v1+json", **manifest, "annotations": names})
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
    }
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _layer() -> bytes:
    """Folders to mount upon, the links by which programs are found in /usr, and one program with its libraries."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for entry in _folders_and_links():
            tar.addfile(entry)
        for path in _program_files():
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(path.parent.resolve() / path.name))
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def _folders_and_links() -> Iterator[tarfile.TarInfo]:
    for name in ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        yield entry
    for name in _USUAL_LINKS:
        if Path("/", name).is_symlink():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, str(Path("/", name).readlink())
            yield entry


def _program_files() -> list[Path]:
    printed = subprocess.run(["ldd", _PROGRAM], capture_output=True, text=True, check=True).stdout
    return [Path(_PROGRAM), *map(Path, re.findall(r"(/\S+) \(0x", printed))]


def _config(user: str, layer: bytes) -> Mapping[str, object]:
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": user,
            "Env": [f"PATH={sys.prefix}/bin:/usr/bin:/bin"],
            "Entrypoint": [_PROGRAM, "infinity"],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
    }


def _add(blobs: dict[str, bytes], document: Mapping[str, object]) -> dict[str, object]:
    content = json.dumps(document).encode()
    blobs[_digest(content)] = content
    return _reference(content)


def _reference(content: bytes) -> dict[str, object]:
    return {"digest": f"sha256:{_digest(content)}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
