"""Modules that travel with a Function: found and packed where it is registered, unpacked where it runs."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import shutil
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from lancegpu_sql.errors import InvalidFunction

_MOST_BYTES = 32 * 1024 * 1024
"""Of all files together: a worker is sent them when it starts, and the catalog keeps them with each version."""

_COMPILED = (".so", ".pyd", ".dylib")
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that an archive can say: equal files make equal archives


@dataclass(frozen=True)
class LocalModules:
    """Modules and packages with all their files.

    Parameters
    ----------
    names
        As they are imported.
    files
        Path below the folder that they are imported from -> content.
    """

    names: tuple[str, ...]
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Of what they are, wherever they stand."""
        digest = hashlib.blake2b(digest_size=16)
        for path, content in sorted(self.files.items()):
            for part in (path.encode(), content):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.hexdigest()

    def archive(self) -> bytes:
        """Pack them; equal files make equal bytes."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in sorted(self.files.items()):
                archive.writestr(zipfile.ZipInfo(path, _NO_TIME), content, zipfile.ZIP_DEFLATED)
        return packed.getvalue()


def local_modules(names: Iterable[str]) -> LocalModules:
    """Find modules as this process imports them, and read their files; none of them is run.

    Raises
    ------
    InvalidFunction
        There is none of that name, or it is not made of files that run anywhere, or too large.
    """
    names = tuple(names)
    files: dict[str, bytes] = {}
    size_bytes = 0
    for name in names:
        for path, file in _files_of(name):
            if file.suffix in _COMPILED:
                raise InvalidFunction(
                    f"code: {name} holds the compiled module {file}, which runs on machines like this one only: build a wheel "
                    "of it and name that in pip."
                )
            content = _read(name, path, file, _MOST_BYTES + 1 - size_bytes)
            size_bytes += len(content)
            if size_bytes > _MOST_BYTES:
                raise InvalidFunction(
                    f"code: {', '.join(names)} have more than {_MOST_BYTES // 1024**2} MiB of files. Code travels with the "
                    "Function; read data from where it is, and name large packages in pip."
                )
            files[path] = content
    return LocalModules(names, files)


def unpack(archive: bytes, folder: Path) -> Path:
    """Unpack modules into a private folder, once, and return the folder that they are imported from."""
    place = folder / f"code-{hashlib.blake2b(archive, digest_size=8).hexdigest()}"
    if place.is_dir():
        return place
    new = folder / f"{place.name}.{uuid.uuid4().hex[:8]}"
    new.mkdir(mode=0o700, parents=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(new)
    try:
        new.rename(place)
    except OSError:  # another worker was first
        shutil.rmtree(new, ignore_errors=True)
        if not place.is_dir():
            raise
    return place


def import_from(folder: Path) -> None:
    """Let what stands in a folder be imported from there, whatever else has its name."""
    for path in folder.iterdir():
        for loaded in [name for name in sys.modules if name.partition(".")[0] == path.stem]:
            del sys.modules[loaded]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    spec = _spec_of(name)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if spec is None or not (folders or (spec.origin or "").endswith(".py")):
        raise InvalidFunction(
            f"code: there is no module {name!r} of files here. It is looked for as `import {name}` does: in the folder of the "
            "Function's file, and in PYTHONPATH."
        )
    if not folders:
        yield f"{name}.py", Path(str(spec.origin))
    for folder in map(Path, folders):
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(folder)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
            if file.is_file() and not hidden and file.suffix != ".pyc":
                yield f"{name}/{inside.as_posix()}", file


def _read(name: str, path: str, file: Path, most_bytes: int) -> bytes:
    """Read a file, or so much of it; a file of /proc says nothing of its size."""
    try:
        path.encode()
        with file.open("rb") as opened:
            return opened.read(most_bytes)
    except UnicodeEncodeError as exc:
        raise InvalidFunction(f"code: the name of {str(file)!r} in {name} is no UTF-8: give it another.") from exc
    except OSError as exc:
        raise InvalidFunction(f"code: {file} in {name} cannot be read: {exc.strerror}") from exc


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # it is there already, and without a place of its own
        return None
