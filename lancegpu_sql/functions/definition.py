"""From a live Function to what a catalog keeps of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lancegpu_sql.catalog.models import (
    FunctionEnvironment,
    FunctionPlacement,
    FunctionVersion,
    InitParameter,
    Parameter,
)
from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.arrow_types import format_type
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.environment import own_python_version, packages_of
from lancegpu_sql.functions.identity import digest_of, locked_digest
from lancegpu_sql.functions.imports_needed import imports_needed, missing_in_lock, outside
from lancegpu_sql.functions.local_modules import LocalModules, local_modules
from lancegpu_sql.functions.options import FunctionOptions, known_options
from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.payload import Payload


def as_function(target: Function | Callable[..., Any], name: str | None = None, **options: Any) -> Function:
    """Make a Function of a callable and options, or give a Function with some of its options changed.

    Raises
    ------
    InvalidFunction, InvalidName
        The callable or an option makes no sense.
    """
    if name is not None:
        options["name"] = name
    if isinstance(target, Function):
        return target.changed(**options)
    return Function(target, FunctionOptions(**known_options(options)))


@dataclass(frozen=True)
class Definition:
    """A Function version before the catalog has numbered it: what a live Function and a file's both come to.

    Its digest is that of its content; where it asks for packages, `locked` makes it the version's.
    """

    version: FunctionVersion
    payload: bytes

    @property
    def needs_lock(self) -> bool:
        """Whether its workers get an environment of their own, which is not resolved yet."""
        environment = self.version.environment
        if environment is None or environment.lock is not None:
            return False
        return bool(environment.pip) or self.version.python_version != own_python_version()

    def locked(self, lock: str) -> Definition:
        """Give the same with its packages resolved.

        Raises
        ------
        InvalidFunction
            It imports a module of a package that is not among them.
        """
        environment = self.version.environment
        assert environment is not None
        packed = Payload.from_bytes(self.payload)
        needed, name = imports_needed(packed), self.version.name
        for module, package in missing_in_lock(needed, packed.search_path, packages_of(lock)).items():
            raise InvalidFunction(
                f"{name} imports {module}, which its workers will not have: they have the packages that it asks for and no "
                f"others. Add {package!r} to pip, which has {module} here.",
                function=name,
                module=module,
            )
        changes = {
            "digest": locked_digest(environment.content_digest, lock),
            "environment": environment.model_copy(
                update={"lock": lock, "imports": outside(needed, packed.search_path)}
            ),
        }
        return Definition(self.version.model_copy(update=changes), self.payload)


def define(function: Function) -> Definition:
    """Take a Function's digest and pack it.

    Raises
    ------
    InvalidFunction
        It holds something that cannot be sent to a worker.
    """
    options, signature = function.options, function.signature
    modules = local_modules(options.code)
    digest = _digest_with(function, modules)
    version = FunctionVersion(
        name=function.name,
        version=0,
        digest=digest,
        parameters=tuple(
            Parameter(name=each.name, type=format_type(each.type), nullable=each.nullable)
            for each in signature.parameters
        ),
        output_type=format_type(signature.output_type),
        output_nullable=signature.output_nullable,
        calling=signature.calling,
        is_class=signature.is_class,
        init_parameters=tuple(
            InitParameter(name=each.name, required=each.required, default=each.default, type=each.type)
            for each in signature.init_parameters
        ),
        deterministic=options.deterministic,
        env=dict(options.env),
        python_version=options.python_version or own_python_version(),
        environment=_environment(options, digest),
        created_at=datetime.now(UTC),
        placement=FunctionPlacement(**options.placement()),
    )
    payload = pack(
        function.target,
        signature,
        name=function.name,
        python_version=options.python_version,
        code=modules.archive() if modules.names else b"",
    )
    return Definition(version, payload)


def _environment(options: FunctionOptions, content_digest: str) -> FunctionEnvironment | None:
    if not options.code and not asks_for_packages(options):
        return None
    return FunctionEnvironment(pip=options.pip, code=options.code, content_digest=content_digest)


def asks_for_packages(options: FunctionOptions) -> bool:
    """Whether workers need an environment of their own."""
    return bool(options.pip) or options.python_version not in (None, own_python_version())


def digest_of_function(function: Function) -> str:
    """Take the digest of a Function as it is now, without its lock: it is another once a helper it reaches has changed."""
    return _digest_with(function, local_modules(function.options.code))


def _digest_with(function: Function, modules: LocalModules) -> str:
    options = function.options
    return digest_of(
        function.target,
        function.signature,
        env=options.env,
        deterministic=options.deterministic,
        pip=options.pip,
        python_version=options.python_version,
        code_digest=modules.digest if modules.names else None,
    )
