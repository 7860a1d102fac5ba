"""All benchmarks, one after the other; each prints what it measured beside its bars.

Those of clusters need Go, as their tests do, and say so in one line where there is none.

`make bench`, or `python benchmarks/run.py [--quick]`: quick takes fewer rounds and rows, to see that all of it works.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

BENCHMARKS: dict[str, list[str]] = {
    "apply_throughput.py": [],
    "refresh_speed.py": ["--rounds", "1", "--rows", "100000"],
    "query_speed.py": ["--rounds", "1", "--rows", "100000"],
    "view_refresh.py": ["--rounds", "1", "--rows", "100000"],
    "scheduler.py": ["--schedules", "1000", "--looks", "20"],
    "kubernetes_start.py": ["--rounds", "1"],
    "kubernetes_tunnel.py": ["--rounds", "1", "--calls", "10"],
    "kubernetes_scale.py": ["--nodes", "50", "--pods", "100"],
}
"""Each benchmark, and what makes it quick."""


def main() -> None:
    """Run them; stop at the first that fails."""
    quick = "--quick" in sys.argv[1:]
    for name, options in BENCHMARKS.items():
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, str(HERE / name), *(options if quick else [])], check=True)


if __name__ == "__main__":
    main()
