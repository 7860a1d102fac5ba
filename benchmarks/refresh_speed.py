"""A refresh beside the same work without it: ratios, medians of rounds run one after the other on one machine.

(a) a plain loop: the Function over the table's record batches in this process, and a Lance write of the result;
(b) `lance`'s own `add_columns` with a UDF. BLAS threads are 1 on all sides. Cold times whole processes, imports
included; warm times the second refresh in a running process, its worker already there.

Run with `make bench`, or `python benchmarks/refresh_speed.py [--rounds 5] [--rows 1000000] [case …]`.
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
    command = [sys.executable, str(HERE / "refresh_side.py"), side, mode, case, str(folder), *more]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    if mode == "cold":
        return {"cold": seconds}
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(folder: Path, case: str, rounds: int, workers: str) -> dict[str, list[float]]:
    """Return what was measured, a value a round; the sides take turns."""
    found: dict[str, list[float]] = {}
    for at in range(rounds):
        names = [f"{case}{workers}_{at}_{name}" for name in ("cold", "first", "second")]
        run("declare", "cold", case, folder, *names)
        for side, more in (("loop", []), ("lance", []), ("ours", ["--workers", workers])):
            taken = [
                run(side, "cold", case, folder, names[0], *more),
                run(side, "warm", case, folder, *names[1:], *more),
            ]
            for name, value in [item for one in taken for item in one.items()]:
                found.setdefault(f"{side}_{name}", []).append(value)
    return found


def report(case: str, workers: str, found: dict[str, list[float]], bars: dict[str, str]) -> None:
    """Print the ratios of one case."""
    print(f"\n{case}, {workers} worker(s) at most; medians of {len(found['ours_warm'])} rounds")
    for name in ("cold", "warm"):
        loop, lance, ours = (statistics.median(found[f"{side}_{name}"]) for side in ("loop", "lance", "ours"))
        print(f"  {name}: loop {loop:.3f} s, lance add_columns {lance:.3f} s, refresh {ours:.3f} s")
        print(f"    refresh / loop  {ratio(found, f'ours_{name}', f'loop_{name}')}   bar: {bars.get(name, 'none')}")
        print(f"    refresh / lance {ratio(found, f'ours_{name}', f'lance_{name}')}")
    print(f"  owner's peak memory: {max(found['ours_peak_bytes']) / 1e6:.0f} MB   bar: ≤ 600 MB")
    full = statistics.median(found["ours_warm"])
    unchanged = statistics.median(found["ours_unchanged"])
    changed = statistics.median(found["ours_changed"])
    print(f"  nothing changed: {unchanged:.3f} s   bar: ≤ 0.1 s")
    print(f"  1 % of rows changed: {changed:.3f} s   bar: ≤ 10 % of {full:.3f} s plus 0.3 s = {full / 10 + 0.3:.3f} s")


CASES = {
    "length": ("2", {"cold": "≤ 2.8", "warm": "none: the Function itself costs nothing"}),
    "normalise": ("2", {"cold": "≤ 2.8", "warm": "≤ 1.5"}),
    "embed": ("1", {"warm": "≤ 1.2"}),
    "embed2": ("2", {"warm": "≤ 0.8"}),
}


def main() -> None:
    """Measure the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="case", help=f"any of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000, help="texts; a fifth of them for embed")
    asked = parser.parse_args()
    for case in asked.cases or list(CASES):
        workers, bars = CASES[case]
        name = case.rstrip("2")
        folder = Path(tempfile.mkdtemp(prefix="lancegpu-bench-"))
        try:
            rows = asked.rows if name != "embed" else asked.rows // 5
            run("make", "cold", name, folder, "--rows", str(rows))
            report(f"{name}: {rows:,} texts", workers, measure(folder, name, asked.rounds, workers), bars)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
