"""The bytes in which a Function version travels to a worker, and stands in the catalog."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from lancegpu_sql.functions.faults import LoadError

_MAGIC = b"lancegpu-function-1\n"


@dataclass(frozen=True)
class ModuleSource:
    """Where a function or class stands in a module that can be imported, and that module's text.

    Attributes
    ----------
    module, qualname
        Its name in Python.
    source
        The module's text when the Function was registered; None for a compiled module.
    path
        The module's file then: for tracebacks, and for what the module reads beside itself.
    is_package
        The module is a package's `__init__`.
    """

    module: str
    qualname: str
    source: str | None
    path: str | None
    is_package: bool


@dataclass(frozen=True)
class Payload:
    """All a worker needs to load a Function version.

    Attributes
    ----------
    name
        For messages.
    python_version
        Of the process that packed it, such as `3.11`.
    calling, is_class, by_keyword
        How it is called; `by_keyword` names the parameters that cannot be given by position.
    input_schema, output_field
        What it takes and gives.
    search_path
        Folders of the packing process's `sys.path` beyond Python's own.
    module
        Where it stands, or None where it is pickled.
    sources
        Text of the files that pickled code comes from, for tracebacks.
    pickled
        The undecorated object, by cloudpickle.
    code
        Modules that travel with it, as `local_modules` packs them.
    """

    name: str
    python_version: str
    calling: str
    is_class: bool
    by_keyword: tuple[str, ...]
    input_schema: pa.Schema
    output_field: pa.Field
    search_path: tuple[str, ...]
    module: ModuleSource | None
    sources: Mapping[str, str] = field(default_factory=dict)
    pickled: bytes = b""
    code: bytes = b""

    def to_bytes(self) -> bytes:
        """Write it: a line of magic, a JSON header, the modules, the pickle."""
        schemas = {
            "input_schema": _schema_text(self.input_schema),
            "output_field": _schema_text(pa.schema([self.output_field])),
        }
        names = ("name", "python_version", "calling", "is_class", "by_keyword", "search_path", "sources")
        header: dict[str, Any] = {name: getattr(self, name) for name in names} | schemas
        header["module"] = None if self.module is None else asdict(self.module)
        if self.code:
            header["code_bytes"] = len(self.code)
        text = json.dumps(header, sort_keys=True).encode()
        return b"".join((_MAGIC, len(text).to_bytes(8, "little"), text, self.code, self.pickled))

    @classmethod
    def from_bytes(cls, data: bytes) -> Payload:
        """Read it; nothing in it is run.

        Raises
        ------
        LoadError
            These are not the bytes of a Function that this release can read.
        """
        if not data.startswith(_MAGIC):
            raise LoadError("The stored Function was written by another release: register it again.")
        start = len(_MAGIC) + 8
        end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        header = json.loads(data[start:end])
        header["input_schema"] = _schema_of(header["input_schema"])
        header["output_field"] = _schema_of(header["output_field"]).field(0)
        header["by_keyword"] = tuple(header["by_keyword"])
        header["search_path"] = tuple(header["search_path"])
        header["module"] = None if header["module"] is None else ModuleSource(**header["module"])
        code_end = end + header.pop("code_bytes", 0)
        return cls(**header, code=data[end:code_end], pickled=data[code_end:])


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
