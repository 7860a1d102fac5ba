"""A query with a Function beside DuckDB's own Arrow UDF of the same Function: ratios of medians, side by side in one run.

Both sides run `functions_under_test.py` with one BLAS thread, over the same Lance table: DuckDB as a user would do it (a
connection, the dataset registered, `create_function(..., type="arrow")`), and `db.sql` with the Function on workers. Cold
times whole processes, imports included, with the byte code that an installed package has (a checkout may lack it); warm
times later queries in a running process, its workers already there. Values are kept with a result, so that every query
computes all of them.

DuckDB calls a Function on all cores at once, except that one which holds the interpreter lock, as plain Python does, has it on
one core at a time; so there is a Function of each kind. To one that lets go of the lock DuckDB gives all cores there are,
and workers have no more: on two cores two workers can at best be as fast, and one worker half as fast.

Run with `make bench`, or `python benchmarks/query_speed.py [--rounds 5] [--rows 1000000] [case …]`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sides import ONE_THREAD, ratio

HERE = Path(__file__).parent


def run(side: str, mode: str, case: str, folder: Path, *more: str) -> dict[str, float]:
    """Run one side in a process of its own; return what it measured, and how long the process took."""
    command = [sys.executable, str(HERE / "query_side.py"), side, mode, case, str(folder), *more]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPYCACHEPREFIX": str(folder / ".bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured | ({"cold": seconds} if mode == "cold" else {})


def measure(folder: Path, case: str, rounds: int, sides: dict[str, list[str]]) -> dict[str, list[float]]:
    """Return what was measured, a value a round; the sides take turns."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for side, more in sides.items():
            for mode in ("cold", "warm"):
                for name, value in run(more[0], mode, case, folder, *more[1:]).items():
                    found.setdefault(f"{side} {name}", []).append(value)
    return found


def report(case: str, found: dict[str, list[float]], bars: dict[str, str]) -> None:
    """Print the ratios of one case."""
    about = f", which {ABOUT[case]}" if case in ABOUT else ""
    print(f"\n{case}{about}; medians of {len(found['duckdb warm'])} rounds")
    for side in ("one worker", "two workers"):
        for name in ("cold", "warm"):
            key = f"{side} {name}"
            if key not in found:
                continue
            theirs, ours = statistics.median(found[f"duckdb {name}"]), statistics.median(found[key])
            told = f"duckdb {theirs:.3f} s, db.sql {ours:.3f} s: {ratio(found, key, f'duckdb {name}')}"
            print(f"  {key}: {told}   bar: {bars.get(key, 'none')}")
            one = f"duckdb's one thread {name}"
            print(f"    beside one thread of it ({statistics.median(found[one]):.3f} s): {ratio(found, key, one)}")
    peak = max(
        value for key, values in found.items() if "peak_bytes" in key and "duckdb" not in key for value in values
    )
    theirs = max(found["duckdb peak_bytes"])
    print(f"  peak memory of the process that asks: db.sql {peak / 1e6:.0f} MB, duckdb {theirs / 1e6:.0f} MB")


def report_first_row(found: dict[str, list[float]]) -> None:
    """Print how long a cold process takes to its first row."""
    first = statistics.median(found["one worker first_row"])
    print(f"\nfirst row of LIMIT 10; medians of {len(found['one worker cold'])} rounds")
    print(f"  in a cold process: {first:.3f} s (best {min(found['one worker first_row']):.3f} s)   bar: ≤ 0.8 s")
    theirs = statistics.median(found["duckdb first_row"])
    print(f"  duckdb: {theirs:.3f} s")


def report_plain(found: dict[str, list[float]]) -> None:
    """Print what a query without Functions costs."""
    ours, theirs = statistics.median(found["one worker warm"]), statistics.median(found["duckdb warm"])
    bar = 1.1 * theirs + 0.01
    print(f"\na query without Functions; medians of {len(found['duckdb warm'])} rounds")
    print(
        f"  warm: duckdb {theirs * 1e3:.1f} ms, db.sql {ours * 1e3:.1f} ms   bar: ≤ {bar * 1e3:.1f} ms (1.1 × and 10 ms)"
    )


ONE = {"duckdb": ["duckdb"], "one worker": ["ours", "--workers", "1"]}
ONE_THREAD_TOO = ONE | {"duckdb's one thread": ["duckdb", "--threads", "1"]}
BOTH = ONE_THREAD_TOO | {"two workers": ["ours", "--workers", "2"]}
# How many workers texts may have is not said; without max_workers there are as many as cores.
TEXTS = {"two workers warm": "≤ 1.3", "two workers cold": "≤ 2.2"}
VECTORS = {"one worker warm": "≤ 1.1", "two workers warm": "≤ 0.7"}
# Of each kind one Function holds the interpreter lock, as plain Python does, and DuckDB calls it on one core at a time; the
# other lets go of it, and DuckDB calls it on all cores at once, where one worker has one core and nobody has more than all.
CASES = {
    "tidy": (BOTH, TEXTS),
    "normalise": (BOTH, TEXTS),
    "length": (ONE_THREAD_TOO, {"one worker warm": "none: the Function itself costs nothing"}),
    "embed_subwords": (BOTH, VECTORS),
    "embed": (BOTH, VECTORS),
    "first_row": (ONE, {}),
    "plain": (ONE, {}),
}
ABOUT = {
    "tidy": "holds the interpreter lock",
    "normalise": "lets go of the interpreter lock",
    "embed_subwords": "holds the interpreter lock",
    "embed": "lets go of the interpreter lock",
}


def main() -> None:
    """Measure the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="case", help=f"any of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000, help="texts; a fifth of them for embed")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lancegpu-bench-"))
    try:
        run("make", "warm", "", folder, "--rows", str(asked.rows))
        for side in ("duckdb", "ours"):  # not measured: it leaves byte code
            run(side, "cold", "first_row", folder)
        print(f"{asked.rows:,} texts, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        for case in asked.cases or list(CASES):
            sides, bars = CASES[case]
            found = measure(folder, case, asked.rounds, sides)
            if case == "first_row":
                report_first_row(found)
            elif case == "plain":
                report_plain(found)
            else:
                report(case, found, bars)
            sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
