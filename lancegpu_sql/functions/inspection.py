"""Reading the Functions of a file in a process of their own: the file's code never runs in the caller's.

`python -m lancegpu_sql.functions.inspection FILE [NAME [OPTIONS]]` is that process. It answers with JSON on its standard
output; what the file prints goes to standard error.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lancegpu_sql import errors
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidFunction, LanceGpuError, LoadFailed, LoadTimeout
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import Definition, as_function, define
from lancegpu_sql.functions.faults import described, summary

_TOLD_CHARACTERS = 4000  # of what a dead process printed: enough for a traceback


def inspect_file(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    timeout_seconds: float = 300.0,
) -> tuple[Definition, ...]:
    """Read the Functions of a Python file, in a process of their own.

    Parameters
    ----------
    path
        The file. One in a package is imported as its module, so that its relative imports work.
    name
        Of one Function; all that the file defines if left out. An undecorated function or class is found as well.
    options
        As of `@function`, for that one; they win over the decorator's.
    timeout_seconds
        For importing the file.

    Returns
    -------
    tuple of Definition
        For `registry.register_definition`, in the order in which the file defines them.

    Raises
    ------
    InvalidFunction, InvalidName
        There is no such file, it has no Functions, or one makes no sense.
    LoadFailed
        The file raised; `user_traceback` says where.
    LoadTimeout
        It took longer than `timeout_seconds`.
    """
    file = _file_of(path)
    if name is not None and not name.isprintable():  # it goes into a command line
        raise InvalidFunction(f"{file} defines no Function {name!r}: that is no name.")
    arguments = [str(file), *([name] if name else []), *([json.dumps(dict(options))] if name and options else [])]
    return asked("lancegpu_sql.functions.inspection", arguments, path, timeout_seconds=timeout_seconds)


def asked(
    module: str, arguments: Sequence[str], what: str | os.PathLike[str], *, given: bytes = b"", timeout_seconds: float
) -> tuple[Definition, ...]:
    """Run a module as a process that runs user code and answers as `answer_with` has it; `what` is what it looks at."""
    # -P: the folder that the caller stands in is not the file's.
    command = [sys.executable, "-P", "-m", module, *arguments]
    here = str(Path(__file__).parents[2])
    search_path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    try:
        process = subprocess.run(
            command,
            input=given,
            capture_output=True,
            timeout=timeout_seconds,
            env={**os.environ, "PYTHONPATH": search_path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LoadTimeout(
            f"{what} was not imported within {timeout_seconds:g} seconds. Load models in the __init__ of a class, not "
            "when the file is imported."
        ) from None
    return _answer(what, process)


def _file_of(path: str | os.PathLike[str]) -> Path:
    try:
        file = Path(path).expanduser().resolve()
        if file.is_file() and file.suffix == ".py":
            return file
        reason = "is no Python file" if file.exists() else "is not there"
    except (OSError, RuntimeError, ValueError) as exc:  # too long, a zero byte, the home of nobody
        reason = f"cannot be looked at ({exc.strerror if isinstance(exc, OSError) else exc})"
    raise InvalidFunction(f"{path} {reason}: give the path of a .py file that defines Functions.")


def _answer(path: str | os.PathLike[str], process: subprocess.CompletedProcess[bytes]) -> tuple[Definition, ...]:
    try:
        answer = json.loads(process.stdout)
    except ValueError:
        told = process.stderr.decode(errors="replace")[-_TOLD_CHARACTERS:]
        raise LoadFailed(
            f"{path} ended its process (exit status {process.returncode}) while it was imported.", user_traceback=told
        ) from None
    try:
        if "error" not in answer:
            return tuple(
                Definition(FunctionVersion.model_validate(each["version"]), base64.b64decode(each["payload"]))
                for each in answer["functions"]
            )
        problem = _error_of(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise LoadFailed(
            f"{path} answered in the place of the process that imported it; a file of Functions is to define them and to "
            "write nothing but to standard output."
        ) from exc
    raise problem


def _error_of(answer: dict[str, Any]) -> LanceGpuError:
    """Read the error of an answer, which the file's own code may have written."""
    kind = getattr(errors, answer["error"])
    if not (isinstance(kind, type) and issubclass(kind, LanceGpuError)):
        raise TypeError(f"{kind!r} is none of our errors")
    taken = ("message", "facts", *dir(LanceGpuError))
    facts = {name: fact for name, fact in answer["facts"].items() if name.isidentifier() and name not in taken}
    return kind(str(answer["message"]), **facts)


def answer_with(functions: Callable[[], Sequence[Function]]) -> None:
    """Define Functions in this process, and write them, or what is wrong, as JSON where `asked` reads it."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what user code prints must not stand in the answer
    text = json.dumps(_inspected(functions)).encode()
    with os.fdopen(answer, "wb") as stream:
        stream.write(text)


def _inspected(functions: Callable[[], Sequence[Function]]) -> dict[str, Any]:
    try:
        definitions = [define(function) for function in functions()]
    except LanceGpuError as problem:
        facts = {key: value for key, value in problem.facts.items() if isinstance(value, (str, int, float, type(None)))}
        # The file may have derived an error of its own from one of ours, which alone the caller knows.
        kind = next(each.__name__ for each in type(problem).__mro__ if each.__module__ == errors.__name__)
        return {"error": kind, "message": problem.message, "facts": facts}
    return {
        "functions": [
            {"version": each.version.model_dump(mode="json"), "payload": base64.b64encode(each.payload).decode()}
            for each in definitions
        ]
    }


def _functions_of(file: Path, name: str | None, options: Mapping[str, Any]) -> list[Function]:
    module = _imported(file)
    found = list({id(value): value for value in vars(module).values() if _is_defined_in(module, value)}.values())
    if name is None:
        if not found:
            raise InvalidFunction(f"{file} defines no Functions: decorate one with @function, or name a plain one.")
        return found
    chosen = next((value for value in found if value.name == name), getattr(module, name, None))
    if not callable(chosen):
        there_are = ", ".join([*(value.name for value in found), *_plain_names(module)]) or "none"
        raise InvalidFunction(f"{file} defines no Function {name!r}. Those it defines: {there_are}.")
    return [as_function(chosen, **options)]


def _plain_names(module: Any) -> list[str]:
    """What a file defines that could be registered by its name, though it is not decorated."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isroutine(value) or inspect.isclass(value)
        if value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _is_defined_in(module: Any, value: object) -> bool:
    return isinstance(value, Function) and value.target.__module__ == module.__name__


def _imported(file: Path) -> Any:
    root, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    module_name = ".".join(parts)
    if not all(part.isidentifier() for part in parts):
        raise InvalidFunction(f"{file} cannot be imported as {module_name!r}: rename it to letters, digits and _.")
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(module_name)
    except LanceGpuError:
        raise
    except BaseException as error:  # the file's own code: SystemExit and KeyboardInterrupt are its faults too
        facts = described(error)
        raise LoadFailed(
            f"{file} could not be imported ({summary(error)}).{hint_at_packages(error)}",
            error_type=facts["error_type"],
            user_traceback=facts["traceback_text"],
        ) from None
    if Path(getattr(module, "__file__", None) or "").resolve() != file:
        raise InvalidFunction(f"{file} has the name of another module, {module_name}: rename the file.")
    return module


def hint_at_packages(error: BaseException) -> str:
    """Return what to do about a module that is missing where Functions are defined."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        " A file is imported where its Functions are registered, too: import what only their workers have, such as the "
        "packages of pip=(...), inside the function, or in the __init__ of a class."
    )


def _main(file: str, name: str | None = None, options: str = "{}") -> None:
    answer_with(lambda: _functions_of(Path(file), name, json.loads(options)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
