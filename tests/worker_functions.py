"""Functions that tests send to workers; they misbehave on request. Imports little: a worker imports this too."""

from __future__ import annotations

import _thread
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


def double(number: int) -> int:
    """Once per row."""
    return 2 * number


def double_all(number: pa.Int64Array) -> pa.Int64Array:
    """Once per batch."""
    return pc.multiply(number, 2)


def slow_double(number: int) -> int:
    """A tenth of a second a row."""
    time.sleep(0.1)
    return 2 * number


def slow_batch(number: pa.Int64Array) -> pa.Int64Array:
    """A tenth of a second a batch, whatever its size."""
    time.sleep(0.1)
    return pc.multiply(number, 2)


def forever(number: int) -> int:
    """Does not come back."""
    time.sleep(3600)
    return number


class MeetsAnother:
    """Waits, but not for ever, until two workers are at it."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return how many there are, for each number."""
        (self.path / str(os.getpid())).touch()
        given_up_at = time.monotonic() + 10
        while (there := len(list(self.path.iterdir()))) < 2 and time.monotonic() < given_up_at:
            time.sleep(0.01)
        return pa.array([there] * len(number))


class HangsInBatch:
    """Does not come back from a batch with the number 13, and notes how many rows each of its calls has."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return the numbers, if it can."""
        with self.path.open("a") as file:
            file.write(f"{len(number)}\n")
        if 13 in number.to_pylist():
            time.sleep(3600)
        return number


def slowly_in_batch(number: pa.Int64Array) -> pa.Int64Array:
    """Take a fiftieth of a second for each number."""
    time.sleep(len(number) / 50)
    return number


def holds_the_lock(number: int) -> int:
    """Does not come back, and lets no other thread of its process run."""
    ctypes.PyDLL(None).sleep(3600)
    return number


def fails_on_negative(number: int) -> int:
    """Raises on some rows."""
    if number < 0:
        raise ValueError(f"no negative numbers: {number}")
    return number


def fails_on_negative_in_batch(number: pa.Int64Array) -> pa.Int64Array:
    """Raises for a whole batch because of some rows."""
    if pc.any(pc.less(number, 0)).as_py():
        raise ValueError("a negative number is in this batch")
    return number


class Unpicklable(Exception):
    """An exception that cannot leave its process."""

    def __init__(self, lock: object, text: str) -> None:
        super().__init__(text)
        self.lock = lock

    def __reduce__(self) -> str:
        raise TypeError("not me")


def fails_unpicklably(number: int) -> int:
    """Raises what does not pickle."""
    raise Unpicklable(sys.stdout, "held fast")


def fails_as_batch(number: pa.Int64Array) -> pa.Int64Array:
    """Raises for a whole batch."""
    raise ValueError("not this batch")


def too_short(number: pa.Int64Array) -> pa.Int64Array:
    """Gives one value less than rows."""
    return number.slice(1)


def wrong_type(number: pa.Int64Array) -> pa.Int64Array:
    """Gives text where numbers are declared."""
    return number.cast(pa.string())


def prints(number: int) -> int:
    """Prints in three ways."""
    print(f"python {number}")
    subprocess.run(["echo", f"child {number}"], check=True)
    ctypes.CDLL(None).printf(b"native\n")
    return number


def floods_with_long_lines(number: int) -> int:
    for _ in range(3000):
        print("a line that no length of a file is a multiple of")
    return number


def floods(number: int) -> int:
    """Prints far more than anybody wants to read."""
    for line in range(100_000):
        print(f"line {line}")
    return number


def secret(number: int) -> str:
    """What user code can see of the token, and of what else is the worker's own."""
    return ", ".join(name for name in os.environ if name.startswith("LANCEGPU_WORKER_")) or "none"


def reads_stdin(number: int) -> str:
    """What user code reads from standard input."""
    return sys.stdin.read()


def modules(number: int) -> str:
    """Which of our own rooms, and heavy libraries, the worker has loaded."""
    rooms = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("lancegpu_sql.")}
    heavy = {"pydantic", "sqlalchemy", "duckdb", "lance", "rich", "typer", "yaml", "kubernetes"} & sys.modules.keys()
    return " ".join(sorted(rooms | heavy))


def shares_memory(number: int) -> bool:
    """Whether the worker has memory for results that its owner sees."""
    return "lancegpu-results" in Path("/proc/self/maps").read_text()


def has_pandas(number: int) -> int:
    """Whether pandas is loaded, which this does not need."""
    return int("pandas" in sys.modules)


class Kills:
    """Ends its own process on the number 13: always, or only where `marker` does not exist yet."""

    def __init__(self, marker: str, times: int, how: str) -> None:
        self.folder = Path(marker)
        self.times = times
        self.how = how

    def __call__(self, number: int) -> int:
        """Return the number, if it can."""
        if number == 13 and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            if self.how == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGSTOP if self.how == "stop" else signal.SIGKILL)
        return number


class Notes:
    """Writes down when it is made, called and closed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._note("init")
        print("getting ready")

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return the numbers, after a moment."""
        self._note(f"call {len(number)}")
        time.sleep(0.3)
        self._note("called")
        return number

    def close(self) -> None:
        """Say so."""
        self._note("close")

    def _note(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")


class SlowToLoad:
    """Takes its time."""

    def __init__(self) -> None:
        time.sleep(3600)

    def __call__(self, number: int) -> int:
        """Never called."""
        return number


class LoadsWhenTold:
    """Is made once a file is there."""

    def __init__(self, path: str) -> None:
        while not Path(path).exists():
            time.sleep(0.01)

    def __call__(self, number: int) -> int:
        """Return the number."""
        return number


class FailsToLoad:
    """Cannot be made."""

    def __init__(self) -> None:
        print("looking for the weights")
        raise FileNotFoundError("weights.bin")

    def __call__(self, number: int) -> int:
        """Never called."""
        return number


class DiesLoading:
    """Takes its process down while it is made."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, number: int) -> int:
        """Never called."""
        return number


def process_id(number: pa.Int64Array) -> pa.Int64Array:
    """In which process each row was computed; slow enough for two to share the work."""
    time.sleep(0.02)
    return pa.array([os.getpid()] * len(number), pa.int64())


def wide(number: pa.Int64Array) -> pa.FixedSizeListArray:
    """4 KiB a row."""
    return pa.FixedSizeListArray.from_arrays(pa.nulls(len(number) * 512, pa.int64()).fill_null(7), 512)


def leaves_an_alarm(number: int) -> int:
    """Sets a time limit for one row and never takes it back."""

    def too_slow(*_: object) -> None:
        raise TimeoutError("too slow")

    signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.002)
    return number


class _Hostile:
    """A stream that ends the program when it is flushed."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise SystemExit


def replaces_streams(number: int) -> int:
    """Puts something hostile in the place of standard output."""
    sys.stdout = _Hostile()  # type: ignore[assignment]
    return number


def replaces_clocks_and_json(number: int) -> int:
    """Puts something useless in the place of what the worker needs."""
    time.monotonic = time.perf_counter = lambda: "now"  # type: ignore[assignment, return-value]
    json.dumps = lambda *_args, **_named: 5  # type: ignore[assignment, return-value]
    return number


def replaces_record_batches(number: int) -> int:
    """Puts something useless where the worker makes its answers."""
    pa.record_batch = None
    return number


def throws_into_its_thread(number: int) -> int:
    """Throws exceptions into its thread for ever, from another one."""
    if not _throwing:
        _throwing.append(number)
        _thread.start_new_thread(_throw, (threading.get_ident(),))
    return number


_throwing: list[int] = []


def _throw(into: int) -> None:
    while True:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(into), ctypes.py_object(ValueError))
        time.sleep(0.0001)


def forks(number: int) -> int:
    """Comes back twice."""
    os.fork()
    return number


def raises_at_length(number: int) -> int:
    """Raises far more text than anybody wants to read."""
    raise ValueError("x" * 5_000_000 + "\ud800")


class Interrupting:
    """A number that ends the program when it is looked at."""

    def __index__(self) -> int:
        raise SystemExit


def gives_an_interrupting_number(number: int) -> int:
    """Gives a result that cannot be read."""
    return Interrupting()  # type: ignore[return-value]


class FailsAtFirst:
    """Raises `kind` on the number 13 as often as `times`; keeps count in files."""

    def __init__(self, marker: str, times: int, kind: str = "TimeoutError") -> None:
        self.folder = Path(marker)
        self.times = times
        self.kind = kind

    def __call__(self, number: int) -> int:
        """Return the number, if it can."""
        if number == 13 and (done := len(list(self.folder.iterdir()))) < self.times:
            (self.folder / str(done)).touch()
            error = {"TimeoutError": TimeoutError, "ValueError": ValueError}[self.kind]("come back later")
            error.retry_after = 0.01  # type: ignore[attr-defined]
            raise error
        return number


class KillsInBatch:
    """Takes whole batches, and ends its process on the number 13."""

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return the numbers, if it can."""
        if 13 in number.to_pylist():
            os.kill(os.getpid(), signal.SIGKILL)
        return number


class NeedsMemory:
    """Runs out of memory above so many rows, or on the number 13."""

    def __init__(self, rows: int, message: str = "") -> None:
        self.rows = rows
        self.message = message

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return the numbers, if it can."""
        if len(number) > self.rows:
            raise RuntimeError(self.message) if self.message else MemoryError
        return number


class FailsWithItsDevice:
    """Stands in for a Function on a broken GPU: fails in the first `broken` processes in which it is asked for the number 13."""

    def __init__(self, marker: str, broken: int) -> None:
        self.folder = Path(marker)
        self.broken = broken

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:
        """Return the numbers, if it can."""
        if 13 in number.to_pylist():
            (self.folder / str(os.getpid())).touch()
            if len(list(self.folder.iterdir())) <= self.broken:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return number


def imports_what_is_not_there(number: int) -> int:
    """Needs a module only when it is called."""
    import lancegpu_sql_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401

    return number


class Counts:
    """Raises on negative numbers, and notes each of its calls by a byte in a file."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, number: int) -> int:
        """Return the number, if it can."""
        os.write(self.file, b".")
        if number < 0:
            raise ValueError(f"no negative numbers: {number}")
        return number


class CountsBatches(Counts):
    """The same for whole batches, with a byte for each of their rows."""

    def __call__(self, number: pa.Int64Array) -> pa.Int64Array:  # type: ignore[override]
        """Return the numbers, if it can."""
        os.write(self.file, b"." * len(number))
        if pc.any(pc.less(number, 0)).as_py():
            raise ValueError("a negative number is in this batch")
        return number
