"""`@function`: a Python callable that can be bound to columns.

Imports the standard library only; types are read, with pyarrow, when a callable is decorated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, overload

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.binding import bind, names_a_column
from lancegpu_sql.functions.names import check_name
from lancegpu_sql.functions.options import FunctionOptions, known_options

if TYPE_CHECKING:
    from lancegpu_sql.functions.signature import Signature


class Function:
    """A callable with Arrow types and options, ready to be bound to columns or registered.

    Calling it with at least one `col(...)` gives a `Binding`; any other call runs it here, in this process.

    Attributes
    ----------
    target
        The undecorated function or class.
    options
        What the decorator was given.
    """

    def __init__(self, target: Callable[..., Any], options: FunctionOptions) -> None:
        if isinstance(target, Function):
            raise InvalidFunction(f"{target.name} is a Function already: decorate it once.")
        if not callable(target):
            raise InvalidFunction(f"A Function is made of a function or a class, not of {target!r}.")
        self.target = target
        self.options = options
        check_name(self.name)
        # Copies __name__, __doc__ and __module__, so that help() and tracebacks speak of the user's object; its
        # __dict__ stays its own: a class's attributes are not this object's.
        update_wrapper(self, target, updated=())
        _ = self.signature

    @property
    def name(self) -> str:
        """The name it has, or will have, in the catalog."""
        name: str | None = self.options.name or getattr(self.target, "__name__", None)
        if name is None:
            raise InvalidFunction(f"{self.target!r} has no name of its own: write name=....")
        return name

    @cached_property
    def signature(self) -> Signature:
        """Its Arrow types, and how it is called."""
        # Loads pyarrow, which importing this module must not.
        from lancegpu_sql.functions.signature import signature_of

        return signature_of(self.target, self.options.input_schema, self.options.output_schema)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Bind to columns, or run here.

        A class called here is made, called and closed each time; `.target(...)` makes an instance to keep.
        """
        signature = self.signature
        if names_a_column(args, kwargs):
            names = [parameter.name for parameter in signature.parameters]
            return bind(self, names, signature.init_parameters, args, kwargs)
        if not signature.is_class:
            return self.target(*args, **kwargs)
        init_values = {each.name: kwargs.pop(each.name) for each in signature.init_parameters if each.name in kwargs}
        instance = self.target(**init_values)
        try:
            return instance(*args, **kwargs)
        finally:
            close = getattr(instance, "close", None)
            if callable(close):
                close()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise InvalidFunction(
            f"{self.name} is a method: its self has no column. Decorate a function, or a class with __call__."
        )

    def changed(self, **options: Any) -> Function:
        """Give the same callable with other options.

        Raises
        ------
        InvalidFunction
            An option is unknown or makes no sense.
        """
        return Function(self.target, self.options.changed(**options)) if options else self

    def __repr__(self) -> str:
        return f"<Function {self.name} of {inspect.unwrap(self.target).__module__}>"


@overload
def function(target: Callable[..., Any], /) -> Function: ...


@overload
def function(target: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Function]: ...


def function(target: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a Function of a function or a class.

    A plain function is called once per row. One whose parameters are annotated with Arrow arrays, or that takes one
    `pyarrow.RecordBatch`, is called once per batch and gives an Arrow array with a value for each row, or a numpy array
    of the same type: of one dimension for numbers, of two, with a vector for each row, for a ``fixed_size_list``. Of a
    class, `__init__` runs once per worker, `__call__` once per row or batch, and `close()`, where there is one, once at
    the end.

    Parameters
    ----------
    target
        Given by `@function` without parentheses.
    name : str, optional
        Its name in the catalog; the callable's own if left out.
    input_schema, output_schema : pyarrow.Schema, optional
        Types of the parameters and of the result, where annotations do not say them. An output schema of several
        fields makes a struct.
    gpu : bool
        It needs a GPU.
    gpu_class : str, optional
        Name of the GPU class it runs on; `default` if left out. Needs `gpu=True`.
    gpus, cpus : int
        Devices and cores of one worker.
    concurrency : int
        Calls at a time in one worker, for Functions that mostly wait for an endpoint.
    batch_size : int, optional
        Most rows handed to one call.
    deterministic : bool
        Equal arguments give equal results.
    env : dict of str to str
        Environment variables of its workers.
    pip : tuple of str
        Packages of its workers' own environment, such as ``("magika==1.*",)``: resolved when it is registered, and installed
        before a worker is asked for.
    python_version : str, optional
        The minor version of Python that its workers run, such as ``"3.12"``; this process's if left out.
    code : tuple of str
        Modules and packages of your own that it imports, such as ``("mypackage",)``: they travel with it.
    secrets : dict of str to str
        Variables of its workers whose values are told nowhere, with where they come from: ``"env:HF_TOKEN"`` and
        ``"file:/run/secrets/hf"``, read where a worker is started, or ``"kubernetes:SECRET/KEY"``.
    gpu_memory_bytes : int or str, optional
        The least memory of a GPU that will do, such as ``"24GiB"``. Needs `gpu=True`.
    image : str, optional
        What its workers run on Kubernetes, instead of their GPU class's image.

    Raises
    ------
    InvalidFunction
        Types are missing, an option is unknown or contradicts another, or the callable is asynchronous.
    InvalidName
        The name cannot stand in SQL.

    Examples
    --------
    A batch of texts to a batch of vectors::

        @function
        class Embed:
            def __init__(self, model: str) -> None:
                self.model = SentenceTransformer(model)

            def __call__(self, text: pa.StringArray) -> Annotated[np.ndarray, pa.list_(pa.float32(), 384)]:
                return self.model.encode(text.to_pylist())
    """
    if target is not None and not callable(target):
        raise InvalidFunction(f"@function takes its options by name: write @function(name={target!r}).")
    checked = FunctionOptions(**known_options(options))

    def decorate(target: Callable[..., Any]) -> Function:
        return Function(target, checked)

    return decorate if target is None else decorate(target)
