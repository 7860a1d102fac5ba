"""What makes two definitions the same Function version.

The digest is taken over what the code does and what it reaches, never over pickle bytes: those change with the order
of a set, the folder of a file and the release of a library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.arrow_types import format_type
from lancegpu_sql.functions.content import Content
from lancegpu_sql.functions.environment import own_python_version
from lancegpu_sql.functions.signature import Signature

# Goes into every digest: a change of how it is taken must not look like a match.
_FORM = "lancegpu function 1"


def digest_of(
    target: Callable[..., Any],
    signature: Signature,
    *,
    env: Mapping[str, str] | None = None,
    deterministic: bool = True,
    pip: Sequence[str] = (),
    python_version: str | None = None,
    code_digest: str | None = None,
) -> str:
    """Take the digest of a Function version.

    Parameters
    ----------
    target
        The undecorated function or class. Its code counts without file names and line numbers, with its defaults, the
        values it closes over, and the functions, classes and constants of its own module that it reaches. What comes
        from another module counts by its name.
    signature
        Its types count: the same code with other types gives other columns.
    env, deterministic, pip, python_version
        As declared; what requirements are resolved to comes on top, see `locked_digest`. Where it may run (`gpu_class`,
        `batch_size`, …) does not count.
    code_digest
        Of the modules that travel with it.

    Returns
    -------
    str
        32 hexadecimal characters: BLAKE2b of 16 bytes.

    Raises
    ------
    InvalidFunction
        What it reaches is nested too deeply to be read.
    """
    content = Content(own_module=getattr(target, "__module__", None))
    try:
        content.add(target)
    except RecursionError:
        raise InvalidFunction(
            f"{getattr(target, '__name__', target)!r} reaches values nested too deeply to tell its versions apart: "
            "load them in the __init__ of a class instead."
        ) from None
    declared = {
        "form": _FORM,
        "python": python_version or own_python_version(),
        "parameters": [[each.name, format_type(each.type), each.nullable] for each in signature.parameters],
        "output": [format_type(signature.output_type), signature.output_nullable],
        "calling": signature.calling,
        "is_class": signature.is_class,
        "env": dict(sorted((env or {}).items())),
        "deterministic": deterministic,
    }
    if pip:
        declared["pip"] = sorted(pip)
    if code_digest:
        declared["code"] = code_digest
    digest = hashlib.blake2b(json.dumps(declared, sort_keys=True).encode(), digest_size=16)
    digest.update(content.digest())
    return digest.hexdigest()


def locked_digest(content_digest: str, lock: str) -> str:
    """Take the digest of a Function version whose packages are those of a lock."""
    return hashlib.blake2b(f"{content_digest}\n{lock}".encode(), digest_size=16).hexdigest()
