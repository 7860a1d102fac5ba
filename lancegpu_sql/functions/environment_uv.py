"""uv, which resolves requirements, finds interpreters and installs packages; its words become our errors here."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from lancegpu_sql.errors import Cancelled, EnvironmentFailed
from lancegpu_sql.functions.environment import RUNTIME_REQUIREMENTS, own_python_version
from lancegpu_sql.settings import masked

_LOOK_SECONDS = 0.1
_TOLD_CHARACTERS = 8000
# Of the process that asks: uv would look into its environment instead of the one that it is to make.
_NOT_INHERITED = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON", "UV_SYSTEM_PYTHON")


def lock(requirements: Sequence[str], python_version: str, *, build_packages: bool = False, here: bool = True) -> str:
    """Resolve requirements, those of a worker itself among them.

    Parameters
    ----------
    requirements
        As pip reads them.
    python_version
        For which minor version.
    build_packages
        Whether a package that comes without a wheel may be built, which runs its code here.
    here
        Whether they are to be installed on this machine, which then needs that Python.

    Returns
    -------
    str
        Each package with its version and the hashes of its files.

    Raises
    ------
    EnvironmentFailed
        They cannot be had together, the index cannot be reached, or there is no such Python; with the resolver's words.
    """
    python = find_python(python_version) if here else sys.executable
    told = "\n".join((*requirements, *RUNTIME_REQUIREMENTS)) + "\n"
    with tempfile.TemporaryDirectory(prefix="lancegpu-lock-") as folder:
        output = Path(folder) / "lock.txt"
        # What a lock says already, uv keeps where it suits: workers then run what this process runs, and from uv's cache.
        output.write_text("".join(f"{each}\n" for each in _own_versions()))
        command = ["pip", "compile", "-", "-o", str(output), "--generate-hashes", "--no-header", "--no-annotate"]
        command += ["--python", python, *([] if build_packages else ["--no-build"])]
        if not here and python_version != own_python_version():
            command += ["--python-version", python_version]
        _run(command, _what(requirements, "cannot be resolved"), given=told, folder=folder)
        return output.read_text().strip() + "\n"


def find_python(python_version: str) -> str:
    """Return the interpreter of a minor version.

    Raises
    ------
    EnvironmentFailed
        This machine has none.
    """
    if python_version == own_python_version():
        return sys.executable
    failed = (
        f"This machine has no Python {python_version}, on which the Function is to run: install it, for example by "
        f"`uv python install {python_version}`, or leave python_version out"
    )
    with tempfile.TemporaryDirectory(prefix="lancegpu-python-") as folder:
        found = _run(["python", "find", python_version, "--no-project", "--no-python-downloads"], failed, folder=folder)
    return found.strip()


def make_environment(
    folder: Path, python: str, lock_file: Path, *, build_packages: bool, interrupted: Callable[[], bool]
) -> None:
    """Make an environment in a folder that is not there yet, and install a lock into it.

    Raises
    ------
    EnvironmentFailed
        A package cannot be had or is not what the lock says; with the installer's words.
    Cancelled
        Someone asked for it.
    """
    beside = str(folder.parent)
    failed = "The environment of the Function cannot be made"
    make = ["venv", str(folder), "--python", python, "--relocatable", "--no-project", "--no-python-downloads"]
    _run(make, failed, folder=beside, interrupted=interrupted)
    install = ["pip", "install", "--python", str(folder / "bin" / "python"), "--require-hashes", "--no-deps"]
    install += ["-r", str(lock_file), *([] if build_packages else ["--no-build"])]
    _run(install, failed, folder=beside, interrupted=interrupted)


def _run(
    arguments: Sequence[str],
    failed: str,
    *,
    folder: str,
    given: str = "",
    interrupted: Callable[[], bool] = lambda: False,
) -> str:
    """Run uv and return what it writes; `folder` is where it runs: no project of the user's is near."""
    # Quiet, it would not even say where an interpreter is.
    quiet = [] if arguments[0] == "python" else ["--quiet"]
    command = [_uv(), *arguments, *quiet, "--color", "never"]
    with tempfile.TemporaryFile() as asked:
        asked.write(given.encode())
        asked.seek(0)
        with subprocess.Popen(
            command, cwd=folder, env=_environment(), stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            output, errors = _heard(process, interrupted)
    if process.returncode != 0:
        said = _said(errors)
        raise EnvironmentFailed(f"{failed}: {said}", owner="environment", said=said)
    return output.decode(errors="replace")


def _heard(process: subprocess.Popen[bytes], interrupted: Callable[[], bool]) -> tuple[bytes, bytes]:
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_LOOK_SECONDS)
            if interrupted():
                raise Cancelled("cancelled while the Function's environment was made")
    except BaseException:
        process.kill()
        raise


def _said(errors: bytes) -> str:
    text = masked(errors.decode(errors="replace")).strip()
    text = re.sub(r"^(error|  cause): ", "", text, flags=re.MULTILINE) or "uv ended without a word"
    return text if len(text) <= _TOLD_CHARACTERS else f"{text[:_TOLD_CHARACTERS]}…"


def _what(requirements: Sequence[str], failed: str) -> str:
    return f"The packages of the Function ({', '.join(requirements) or 'none but a worker’s own'}) {failed}"


def _uv() -> str:
    # Only those whose Functions ask for packages need it.
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError) as exc:
        raise EnvironmentFailed(
            "uv, which resolves and installs the packages of Functions, is missing here: pip install uv",
            owner="environment",
        ) from exc


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**kept, "PATH": os.pathsep.join(_search_path(kept.get("PATH", os.defpath)))}


def _search_path(path: str) -> list[str]:
    """Return the folders of programs; in the place of pyenv's shims, which answer for the chosen versions only, all of its own."""
    folders = []
    for folder in path.split(os.pathsep):
        one = Path(folder)
        if one.name == "shims" and (one.parent / "versions").is_dir():
            folders += sorted(str(each) for each in (one.parent / "versions").glob("3.*/bin"))
        else:
            folders.append(folder)
    return folders


def _own_versions() -> list[str]:
    own = []
    for requirement in RUNTIME_REQUIREMENTS:
        name = requirement.partition(">")[0]
        with suppress(importlib.metadata.PackageNotFoundError):
            own.append(f"{name}=={importlib.metadata.version(name)}")
    return own
