"""Devices shared between processes, some of which are killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from placement_program import STAND_IN
from placement_suite import TIMEOUT_SECONDS, Asked, gpu_class, request_for

from lancegpu_sql.catalog.process import start_seconds
from lancegpu_sql.placement.ledger import Ledger
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import Ready, Waiting, Wanted

PROGRAM = Path(__file__).parents[1] / "placement_program.py"


class Other:
    """Another process that asked for a worker of the class l4, which has one simulated device."""

    def __init__(self, folder: Path, owner: str, *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, folder, owner, "l4", "1", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hears(self, kind: str) -> dict[str, Any]:
        """Read on until the process says that."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["kind"] == kind:
                return said
        raise AssertionError(f"the process ended before it said {kind}")

    def tell(self, word: str) -> None:
        """Write a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it as the kernel would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(TIMEOUT_SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def other(folder: Path) -> Iterator[Callable[..., Other]]:
    others: list[Other] = []

    def start(owner: str, *more: str) -> Other:
        others.append(Other(folder, owner, *more))
        return others[-1]

    yield start
    for one in others:
        one.close()


@pytest.fixture
def placement(folder: Path) -> Iterator[LocalPlacement]:
    placement = LocalPlacement(folder, command=STAND_IN)
    yield placement
    placement.close()


@pytest.fixture
def ask(placement: LocalPlacement) -> Callable[[], Asked]:
    return lambda: Asked(placement, request_for(gpu_class()))


def wait_for_end(pid: int) -> None:
    """Return when a process is gone."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        assert select.select([descriptor], [], [], TIMEOUT_SECONDS)[0]
        os.close(descriptor)


def test_a_request_waits_for_another_process_and_names_its_job(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    other("job 7 of another database").hears("Ready")
    assert "simulated:l4/0 by job 7 of another database" in ask().next(Waiting).message


def test_a_request_starts_when_another_process_gives_its_device_back(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    holder = other("job 7")
    holder.hears("Ready")
    waiter = ask()
    waiter.next(Waiting)
    holder.close()
    waiter.next(Ready)


def test_a_request_starts_when_the_process_that_holds_the_device_is_killed(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    holder = other("job 7")
    holder.hears("Ready")
    waiter = ask()
    waiter.next(Waiting)
    holder.kill()
    waiter.next(Ready)


def test_a_process_that_forked_off_the_owner_ends_no_worker(other: Callable[..., Other], folder: Path) -> None:
    holder = other("job 7")
    worker = holder.hears("Ready")["worker_pid"]
    holder.tell("fork")
    holder.hears("forked")
    assert start_seconds(worker) is not None
    assert [claim.devices for claim in Ledger(folder).exchange(())] == [("simulated:l4/0",)]


def test_a_worker_that_outlives_its_killed_owner_keeps_its_device(
    other: Callable[..., Other], ask: Callable[[], Asked], placement: LocalPlacement
) -> None:
    holder = other("job 7")
    worker = holder.hears("Ready")["worker_pid"]
    os.kill(worker, signal.SIGSTOP)  # it cannot notice that its owner is gone
    holder.kill()
    assert placement.free_workers(gpu_class(), 1, 1) == 0
    waiter = ask()
    waiter.next(Waiting)
    os.kill(worker, signal.SIGKILL)
    waiter.next(Ready)


def test_a_worker_ends_with_its_killed_owner(other: Callable[..., Other]) -> None:
    holder = other("job 7")
    worker = holder.hears("Ready")["worker_pid"]
    holder.kill()
    wait_for_end(worker)


def children_of(process_id: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def test_what_a_killed_worker_started_ends_before_its_device_is_given_on(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    holder = other("job 7", "children")
    children = children_of(holder.hears("Ready")["worker_pid"])
    waiter = ask()
    waiter.next(Waiting)
    holder.kill()
    waiter.next(Ready)
    assert [start_seconds(child) for child in children] == [None, None]


def test_what_a_worker_started_ends_with_it_wherever_it_went(other: Callable[..., Other]) -> None:
    holder = other("job 7", "children")
    children = children_of(holder.hears("Ready")["worker_pid"])
    holder.tell("release")
    holder.hears("released")
    assert [start_seconds(child) for child in children] == [None, None]


def test_a_device_is_kept_from_others_while_an_unknown_process_of_a_killed_worker_lives(
    other: Callable[..., Other], ask: Callable[[], Asked], placement: LocalPlacement
) -> None:
    holder = other("job 7", "bare")
    worker = holder.hears("Ready")["worker_pid"]
    *_, bare = children_of(worker)
    holder.kill()
    wait_for_end(worker)
    waiter = ask()
    waiter.next(Waiting)
    assert placement.free_workers(gpu_class(), 1, 1) == 0
    os.kill(bare, signal.SIGKILL)
    waiter.next(Ready)


def test_waiting_behind_a_process_that_is_gone_costs_no_time(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    holder = other("job 7")
    worker = holder.hears("Ready")["worker_pid"]
    os.kill(worker, signal.SIGSTOP)
    holder.kill()
    waiter = ask()
    waiter.next(Waiting)
    began = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - began < 0.2
    os.kill(worker, signal.SIGKILL)
    waiter.next(Ready)


def test_an_older_request_that_is_killed_holds_nobody_up(
    other: Callable[..., Other], placement: LocalPlacement, ask: Callable[[], Asked]
) -> None:
    holder = ask()
    holder.next(Ready)
    older = other("an older one")
    older.hears("Waiting")
    younger = Asked(placement, request_for(gpu_class(), asked_at=1e12))
    assert "1 older request before it" in younger.next(Waiting).message
    older.kill()
    assert "older request" not in younger.next(Waiting).message
    holder.release()
    younger.next(Ready)


def test_a_holder_hears_that_another_process_wants_its_device(
    other: Callable[..., Other], ask: Callable[[], Asked]
) -> None:
    holder = ask()
    holder.next(Ready)
    waiter = other("job 7")
    holder.next(Wanted)
    holder.release()
    waiter.hears("Ready")


def test_what_a_killed_process_left_is_cleared_away(
    other: Callable[..., Other], ask: Callable[[], Asked], folder: Path
) -> None:
    holder = other("job 7")
    holder.hears("Ready")
    holder.kill()
    ask().next(Ready)
    assert not list(folder.glob(f"{holder.process.pid}-*"))


def test_a_full_disk_is_told_and_nothing_is_asked_for(other: Callable[..., Other], placement: LocalPlacement) -> None:
    said = other("job 7", "full-disk").hears("StorageError")
    assert "File too large" in said["message"]
    assert placement.free_workers(gpu_class(), 1, 1) == 1
