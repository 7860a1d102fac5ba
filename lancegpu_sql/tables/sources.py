"""What users bring as rows, as one stream of record batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.columns import COMPUTED_KEY, IDENTITY_KEY

_ACCEPTED = (
    "an Arrow table, record batch, reader or dataset, a pandas or polars DataFrame, a list of dicts, a dict of columns, "
    "or the path of a Parquet file or folder"
)


def reader_of(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Return the rows as a stream.

    Parameters
    ----------
    data
        An Arrow table, record batch, reader or dataset, any object with ``__arrow_c_stream__``, a pandas or polars
        DataFrame (or polars LazyFrame), a list of dicts (a key that a dict lacks is null), a list of record batches,
        a dict of columns, or the path of a Parquet file or of a folder of them. Files are streamed, not loaded.
    schema
        Names and types to read lists and dicts by, instead of inferring them. Other data is cast to it later, by the
        table.

    Raises
    ------
    InvalidData
        Nothing of the above, or its values do not make Arrow columns.
    """
    try:
        return _reader_of(data, schema)
    except InvalidData:
        raise
    except (pa.ArrowException, OSError, OverflowError, TypeError, ValueError) as exc:
        raise InvalidData(f"The data cannot be read as rows: {exc}") from exc


def _reader_of(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidData(f"schema is a pyarrow.Schema, such as pa.schema([('id', pa.int64())]), not {schema!r}.")
    if data is None:
        raise InvalidData(
            f"There is no data: give {_ACCEPTED}; or, to create an empty table, schema=pa.schema([(<name>, <type>), …])."
        )
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, _dataset().Dataset):
        return data.scanner().to_reader()
    if isinstance(data, str | os.PathLike):
        return _parquet(os.fspath(data))
    if isinstance(data, Mapping):
        _check_keys(data)
        return pa.table(dict(data), schema=schema).to_reader()
    if isinstance(data, list | tuple):
        return _listed(data, schema)
    return _foreign(data)


def _dataset() -> Any:
    """`pyarrow.dataset`, which takes a tenth of a second where pandas is installed, which it imports."""
    from pyarrow import dataset

    return dataset


def _foreign(data: Any) -> pa.RecordBatchReader:
    # Known by where their class lives: pandas and polars need not be installed, and are not imported for others' data.
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and type(data).__name__ == "DataFrame":
        table = pa.Table.from_pandas(data, preserve_index=False)
        return table.replace_schema_metadata(None).to_reader()
    if library == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if library == "polars" and type(data).__name__ == "DataFrame":
        table = data.to_arrow()
        return table.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise InvalidData(f"A value of type {type(data).__name__} is not rows: give {_ACCEPTED}.")


def _parquet(path: str) -> pa.RecordBatchReader:
    if not Path(path).exists():
        raise InvalidData(f"There is no Parquet file or folder {path!r}.", path=path)
    return _dataset().dataset(path, format="parquet").scanner().to_reader()


def _listed(rows: list[Any] | tuple[Any, ...], schema: pa.Schema | None) -> pa.RecordBatchReader:
    if rows and all(isinstance(row, pa.RecordBatch) for row in rows):
        return pa.RecordBatchReader.from_batches(rows[0].schema, rows)
    if not all(isinstance(row, Mapping) for row in rows):
        raise InvalidData(f"A list must hold dicts, one a row, or record batches: give {_ACCEPTED}.")
    _check_keys(key for row in rows for key in row)
    # Arrow's own from_pylist takes the first row's keys for all.
    names = schema.names if schema is not None else list(dict.fromkeys(key for row in rows for key in row))
    if not names:
        raise InvalidData("An empty list says nothing about columns: give a schema as well, or an empty Arrow table.")
    unknown = {key for row in rows for key in row} - set(names)
    if unknown:
        raise InvalidData(f"Rows have keys that the schema has not: {', '.join(sorted(map(str, unknown)))}.")
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pa.table(columns, schema=schema).to_reader()


def _check_keys(keys: Iterable[Any]) -> None:
    wrong = next((key for key in keys if not isinstance(key, str)), None)
    if wrong is not None:
        raise InvalidData(f"The name of a column is a text, not {wrong!r} ({type(wrong).__name__}).")


class Stream:
    """A reader whose own failure is kept: Lance passes on no more than the text of what a reader raises.

    Parameters
    ----------
    schema
        Of the batches.
    batches
        Read once.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._failure: BaseException | None = None
        self.reader = pa.RecordBatchReader.from_batches(schema, self._watched(batches))

    def _watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except BaseException as exc:
            self._failure = exc
            raise

    @contextmanager
    def own_failures(self) -> Iterator[None]:
        """Raise what the reader raised, in place of what Lance made of it."""
        try:
            yield
        except BaseException:
            if self._failure is not None:
                raise self._failure from None
            raise


def converted(
    reader: pa.RecordBatchReader, schema: pa.Schema, convert: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Stream:
    """Return the reader's rows, each batch converted to `schema`."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                yield convert(batch)
        except pa.ArrowException as exc:
            raise InvalidData(f"The data cannot be read: {exc}") from exc

    return Stream(schema, batches())


def without_declarations(schema: pa.Schema) -> pa.Schema:
    """Return a schema for a new table: a column that was computed elsewhere is a plain one there.

    Its declaration names fields of the table it came from.
    """
    ours = (COMPUTED_KEY.encode(), IDENTITY_KEY.encode())
    fields = []
    for field in schema:
        metadata = {key: value for key, value in (field.metadata or {}).items() if key not in ours}
        fields.append(field.with_metadata(metadata or None))
    return pa.schema(fields, schema.metadata)
