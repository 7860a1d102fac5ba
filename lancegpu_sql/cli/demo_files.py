"""Real files for the demo: the beginnings and ends of some thousands, from all over a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 4096
"""Magika looks at no more of a file than so much at its beginning and at its end."""


def read_files(folder: Path, most: int) -> pa.Table:
    """Read files into a table of `path`, `bytes` (the file's size) and `content` (its beginning and its end).

    Of more than `most` files every n-th is taken, so that all parts of the folder are seen. What cannot be read is left
    out.
    """
    import pyarrow as pa

    rows = []
    for path in spread(sorted(_files_below(folder)), most):
        row = read_file(path, folder)
        if row is not None:
            rows.append(row)
    return pa.Table.from_pylist(
        rows, schema=pa.schema([("path", pa.utf8()), ("bytes", pa.int64()), ("content", pa.binary())])
    )


def read_file(path: Path, folder: Path) -> dict[str, object] | None:
    """Read the beginning and the end of one file: all of it, where that is not more."""
    try:
        with path.open("rb") as file:
            content = file.read(BLOCK_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > len(content):
                file.seek(max(size_bytes - BLOCK_BYTES, len(content)))
                content += file.read(BLOCK_BYTES)
    except OSError:
        return None
    name = os.fsencode(path.relative_to(folder)).decode("utf-8", "replace")
    return {"path": name, "bytes": size_bytes, "content": content}


def spread(items: list[Path], most: int) -> list[Path]:
    """Return at most so many of the items, evenly spread over them."""
    if len(items) <= most:
        return items
    return [items[number * len(items) // most] for number in range(most)]


def _files_below(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        # Caches, environments and histories are nobody's own files.
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for name in names:
            if name.startswith("."):
                continue
            path = Path(here, name)
            if path.is_file() and not path.is_symlink():
                yield path
