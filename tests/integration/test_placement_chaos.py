"""Owners and workers killed at random moments: no device is ever used twice, and none stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from placement_chaos_program import DEVICES, GPU_CLASS
from placement_program import STAND_IN
from placement_suite import Asked, request_for

from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import Ready

PROGRAM = Path(__file__).parents[1] / "placement_chaos_program.py"
KILLS = 200 if os.environ.get("TEST_LENGTH") == "full" else 20
OWNERS = 3


class Owner:
    """A process that keeps asking for a device."""

    def __init__(self, folder: Path, proofs: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, folder, proofs], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def rounds(self, count: int) -> int:
        """Wait until it has had that many workers; return the process id of the latest."""
        assert self._process.stdout is not None
        return [int(self._process.stdout.readline()) for _ in range(count)][-1]

    def kill(self) -> None:
        self._process.kill()
        with self._process:
            pass


def test_no_device_is_used_twice_or_lost_when_processes_are_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    folder, proofs = tmp_path / "run", tmp_path / "proofs"
    proofs.mkdir()
    owners = [Owner(folder, proofs) for _ in range(OWNERS)]
    for _ in range(KILLS):
        number = chance.randrange(OWNERS)
        worker = owners[number].rounds(chance.randrange(1, 4))
        if chance.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        else:
            owners[number].kill()
            owners[number] = Owner(folder, proofs)
    for owner in owners:
        owner.kill()
    assert (proofs / "used").stat().st_size >= KILLS // 2
    assert not (proofs / "conflict").exists()
    placement = LocalPlacement(folder, command=STAND_IN, driver=lambda: DEVICES)
    both = [Asked(placement, request_for(GPU_CLASS)) for _ in range(2)]
    assert sorted(asked.next(Ready).devices for asked in both) == [("GPU-aaaa",), ("GPU-bbbb",)]
    placement.close()
