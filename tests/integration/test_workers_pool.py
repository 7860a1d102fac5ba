"""The pool with real local workers: leases, warm workers, loading that fails, waiting that ends."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import worker_functions
from applied import NO_ONE, need_for, numbers

from lancegpu_sql.errors import Cancelled, LoadFailed, LoadTimeout, WorkerLost
from lancegpu_sql.placement import GpuClass, LocalDevices, LocalPlacement, PlacementEvent, Ready, Starting, Waiting
from lancegpu_sql.workers import Lease, WorkerNeed, WorkerPool

TOY = GpuClass(name="toy", resource_name="example.com/toy", local=LocalDevices(simulated=1))
END_SECONDS = 10.0


@pytest.fixture
def placement(tmp_path: Path) -> Iterator[LocalPlacement]:
    place = LocalPlacement(tmp_path / "run")
    yield place
    place.close()


@pytest.fixture
def pool(placement: LocalPlacement) -> Iterator[WorkerPool]:
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()


def lease(pool: WorkerPool, need: WorkerNeed) -> Lease:
    return pool.lease(need, lambda _: None, NO_ONE)


def name_of_worker(pool: WorkerPool, need: WorkerNeed) -> str:
    taken = lease(pool, need)
    taken.release()
    return taken.worker_name


def ends(worker_name: str) -> bool:
    """Whether the process of a worker's name is gone soon."""
    try:
        pidfd = os.pidfd_open(int(worker_name.rpartition(" ")[2]))
    except ProcessLookupError:
        return True
    gone = select.poll()
    gone.register(pidfd, select.POLLIN)
    ended = bool(gone.poll(END_SECONDS * 1000))
    os.close(pidfd)
    return ended


def test_the_listener_hears_of_the_start_and_ready_comes_last(pool):
    heard: list[PlacementEvent] = []
    pool.lease(need_for(worker_functions.double), heard.append, NO_ONE).release()
    assert heard[-2] == Starting("loading the Function")
    assert isinstance(heard[-1], Ready)


def test_a_worker_given_back_is_used_again(pool):
    need = need_for(worker_functions.double)
    assert name_of_worker(pool, need) == name_of_worker(pool, need)


def test_a_worker_is_not_used_for_other_bound_values(pool, tmp_path):
    first, second = (need_for(worker_functions.Notes, bound={"path": str(tmp_path / name)}) for name in "ab")
    assert name_of_worker(pool, first) != name_of_worker(pool, second)


def test_two_leases_at_a_time_are_two_workers(pool):
    need = need_for(worker_functions.double)
    both = lease(pool, need), lease(pool, need)
    assert both[0].worker_name != both[1].worker_name
    for each in both:
        each.release()


def test_a_broken_worker_is_not_used_again(pool):
    need = need_for(worker_functions.double)
    taken = lease(pool, need)
    taken.release(broken=True)
    assert ends(taken.worker_name)
    assert pool.warm_workers(need) == 0


def test_a_warm_worker_that_died_is_not_used_again(pool):
    need = need_for(worker_functions.double)
    name = name_of_worker(pool, need)
    os.kill(int(name.rpartition(" ")[2]), signal.SIGKILL)
    assert ends(name)
    assert name_of_worker(pool, need) != name


def stop(pid: int) -> None:
    """Stop a process, and return when every thread of it stands still: one on another processor may go on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while any(task.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
        time.sleep(0.001)


def test_a_warm_worker_that_is_stopped_is_not_used_again(pool):
    need = need_for(worker_functions.double)
    name = name_of_worker(pool, need)
    stop(int(name.rpartition(" ")[2]))
    assert name_of_worker(pool, need) != name
    assert ends(name)


def test_an_idle_worker_ends_when_its_time_is_over(placement):
    pool = WorkerPool(placement, worker_idle_seconds=0.05)
    assert ends(name_of_worker(pool, need_for(worker_functions.double)))
    pool.close()


def test_no_idle_worker_is_kept_for_no_time(placement):
    pool = WorkerPool(placement, worker_idle_seconds=0)
    need = need_for(worker_functions.double)
    name_of_worker(pool, need)
    assert pool.warm_workers(need) == 0
    pool.close()


def test_a_gpu_class_says_how_long_its_idle_workers_are_kept(placement):
    pool = WorkerPool(placement, worker_idle_seconds=60)
    need = need_for(worker_functions.double, gpu_class=TOY.model_copy(update={"worker_idle_seconds": 0.0}))
    assert ends(name_of_worker(pool, need))
    assert pool.warm_workers(need) == 0
    pool.close()


def test_a_retired_worker_closes_its_function(placement, tmp_path):
    pool = WorkerPool(placement, worker_idle_seconds=60)
    name_of_worker(pool, need_for(worker_functions.Notes, bound={"path": str(tmp_path / "notes")}))
    pool.close()
    assert (tmp_path / "notes").read_text().split() == ["init", "close"]


def test_closing_the_pool_ends_leased_workers_too(placement):
    pool = WorkerPool(placement, worker_idle_seconds=60)
    taken = lease(pool, need_for(worker_functions.double))
    pool.close()
    assert ends(taken.worker_name)
    taken.release()


def test_a_closed_pool_leases_nothing(placement):
    pool = WorkerPool(placement, worker_idle_seconds=60)
    pool.close()
    with pytest.raises(Cancelled):
        lease(pool, need_for(worker_functions.double))


def test_an_idle_worker_gives_its_device_to_whoever_waits(pool, tmp_path):
    first = name_of_worker(pool, need_for(worker_functions.double, gpu_class=TOY))
    other = need_for(worker_functions.double_all, gpu_class=TOY)
    assert name_of_worker(pool, other) != first
    assert ends(first)


def test_a_worker_kept_for_ever_is_given_up_to_others_all_the_same(placement, tmp_path):
    pool = WorkerPool(placement, worker_idle_seconds=1e300)
    first = lease(pool, need_for(worker_functions.double, gpu_class=TOY))
    first.release()
    lease(pool, need_for(worker_functions.Notes, gpu_class=TOY, bound={"path": str(tmp_path / "notes")})).release()
    assert ends(first.worker_name)
    pool.close()


def test_a_worker_that_others_wait_for_is_not_kept_when_given_back(pool):
    need = need_for(worker_functions.double, gpu_class=TOY)
    holder = lease(pool, need)
    waits = threading.Event()
    got: list[Lease] = []

    def listen(event: PlacementEvent) -> None:
        if isinstance(event, Waiting):
            waits.set()

    other = threading.Thread(
        target=lambda: got.append(pool.lease(need_for(worker_functions.double_all, gpu_class=TOY), listen, NO_ONE))
    )
    other.start()
    assert waits.wait(END_SECONDS)
    while not holder.wanted:
        pass
    holder.release()
    other.join(END_SECONDS)
    assert ends(holder.worker_name)
    got[0].release()


def on(name: str, devices: int = 1) -> GpuClass:
    """A class of simulated devices."""
    return GpuClass(name=name, local=LocalDevices(simulated=devices))


def with_backup(target: Callable[..., Any], own: GpuClass, *backups: GpuClass) -> WorkerNeed:
    """A need that has other classes to fall back on."""
    return replace(need_for(target, gpu_class=own), backups=backups)


def test_a_worker_of_a_backup_class_is_used_while_the_own_class_is_full(pool):
    own, backup = on("own"), on("backup")
    need = with_backup(worker_functions.double, own, backup)
    first, second = lease(pool, need), lease(pool, need)
    assert [first.gpu_class, second.gpu_class] == ["own", "backup"]
    assert second.devices == ("simulated:backup/0",)
    first.release()
    second.release()


def test_where_all_are_full_the_first_with_room_is_used_and_nothing_else_is_held(pool, placement):
    own, backup = on("own"), on("backup")
    holders = [lease(pool, need_for(worker_functions.double, gpu_class=one)) for one in (own, backup)]
    heard: list[PlacementEvent] = []

    def listen(event: PlacementEvent) -> None:
        heard.append(event)
        if isinstance(event, Waiting):
            threading.Thread(target=holders[1].release, args=[True]).start()

    taken = pool.lease(with_backup(worker_functions.double_all, own, backup), listen, NO_ONE)
    assert taken.gpu_class == "backup"
    assert "'backup' (in_use)" in next(event for event in heard if isinstance(event, Waiting)).message
    assert isinstance(heard[-1], Ready)
    assert heard[-1].backup == "backup"
    holders[0].release(broken=True)
    assert placement.free_workers(own, 1, 1) == 1, "the request to its own class was withdrawn"
    taken.release()


def test_a_warm_worker_of_a_backup_class_is_used_only_where_the_own_class_is_full(pool):
    own, backup = on("own"), on("backup")
    need = with_backup(worker_functions.double, own, backup)
    on_backup = lease(pool, need_for(worker_functions.double, gpu_class=backup))
    on_backup.release()
    first = lease(pool, need)
    second = lease(pool, need)
    assert first.gpu_class == "own"
    assert second.worker_name == on_backup.worker_name
    first.release()
    second.release()


def test_a_lost_worker_of_a_backup_class_says_how_it_ended(pool):
    own, backup = on("own"), on("backup")
    need = with_backup(worker_functions.double, own, backup)
    first, second = lease(pool, need), lease(pool, need)
    os.kill(int(second.worker_name.rpartition(" ")[2]), signal.SIGKILL)
    assert second.why_lost(END_SECONDS).cause == "signal"
    second.release(broken=True)
    first.release()


def test_free_workers_counts_those_of_backup_classes(pool):
    need = with_backup(worker_functions.double, on("own"), on("backup", 2))
    assert pool.free_workers(need) == 3
    taken = lease(pool, need)
    assert pool.free_workers(need) == 2
    taken.release()
    assert pool.warm_workers(need) == 1


def test_waiting_for_room_is_no_part_of_what_a_start_costs(pool):
    holder = lease(pool, need_for(worker_functions.double, gpu_class=TOY))
    waited = threading.Event()

    def listen(event: PlacementEvent) -> None:
        if isinstance(event, Waiting):
            threading.Timer(2.0, holder.release, [True]).start()
            waited.set()

    began = time.monotonic()
    taken = pool.lease(need_for(worker_functions.double_all, gpu_class=TOY), listen, NO_ONE)
    took = time.monotonic() - began
    assert waited.is_set()
    assert taken.start_cost_seconds == taken.started_seconds <= took - 1.9
    taken.release()


def test_a_warm_worker_tells_what_its_start_cost(pool):
    need = need_for(worker_functions.double)
    cold = lease(pool, need)
    cold.release()
    warm = lease(pool, need)
    assert (warm.started_seconds, warm.start_cost_seconds) == (0.0, cold.started_seconds)
    warm.release()


def test_a_worker_tells_how_long_it_computed_for_others(pool):
    need = need_for(worker_functions.double)
    for seconds in (1.5, 2.0):
        taken = lease(pool, need)
        taken.note_computed(seconds, rows=1)
        taken.release()
    again = lease(pool, need)
    assert again.computed_before_seconds == 3.5
    again.release()


def test_a_worker_of_this_machine_shares_memory_with_its_owner(pool):
    taken = lease(pool, need_for(worker_functions.shares_memory))
    stream = taken.client.open_stream()
    stream.send(1, numbers([1]))
    assert stream.receive().values.to_pylist() == [True]
    stream.close()
    taken.release()


def test_a_worker_tells_how_quick_it_was_when_it_last_had_rows(pool):
    need = need_for(worker_functions.double)
    for seconds, rows in ((1.0, 5), (2.0, 600), (0.0, 0)):
        taken = lease(pool, need)
        taken.note_computed(seconds, rows)
        taken.release()
    again = lease(pool, need)
    assert again.rows_per_second_before == 300
    again.release()


def test_waiting_ends_when_it_is_cancelled(pool):
    holder = lease(pool, need_for(worker_functions.double, gpu_class=TOY))
    cancelled = threading.Event()

    def listen(event: PlacementEvent) -> None:
        if isinstance(event, Waiting):
            cancelled.set()

    with pytest.raises(Cancelled):
        pool.lease(need_for(worker_functions.double_all, gpu_class=TOY), listen, cancelled)
    holder.release()


def test_waiting_ends_when_the_pool_is_closed(placement):
    pool = WorkerPool(placement, worker_idle_seconds=60)
    lease(pool, need_for(worker_functions.double, gpu_class=TOY))

    def listen(event: PlacementEvent) -> None:
        if isinstance(event, Waiting):
            threading.Thread(target=pool.close).start()

    with pytest.raises((Cancelled, WorkerLost)):
        pool.lease(need_for(worker_functions.double_all, gpu_class=TOY), listen, NO_ONE)
    pool.close()


def test_a_function_that_cannot_be_loaded_shows_the_users_traceback_and_prints(pool):
    with pytest.raises(LoadFailed, match=r"weights\.bin") as raised:
        lease(pool, need_for(worker_functions.FailsToLoad))
    assert 'raise FileNotFoundError("weights.bin")' in raised.value.user_traceback  # type: ignore[attr-defined]
    assert raised.value.log == ("looking for the weights",)  # type: ignore[attr-defined]


def test_a_function_that_takes_too_long_to_load(pool):
    with pytest.raises(LoadTimeout, match="init_timeout_seconds"):
        lease(pool, need_for(worker_functions.SlowToLoad, init_timeout_seconds=0.2))


def test_loading_ends_when_it_is_cancelled(pool):
    cancelled = threading.Event()

    def listen(event: PlacementEvent) -> None:
        if event == Starting("loading the Function"):
            cancelled.set()

    with pytest.raises(Cancelled):
        pool.lease(need_for(worker_functions.SlowToLoad), listen, cancelled)


def test_a_worker_that_dies_while_loading_is_told_from_a_function_that_fails(pool):
    with pytest.raises(WorkerLost, match="SIGKILL") as raised:
        lease(pool, need_for(worker_functions.DiesLoading))
    assert raised.value.cause == "signal"  # type: ignore[attr-defined]


def test_what_is_printed_while_loading_is_in_the_lease(pool, tmp_path):
    taken = lease(pool, need_for(worker_functions.Notes, bound={"path": str(tmp_path / "notes")}))
    assert taken.load_log == ("getting ready",)
    taken.release()


def test_free_workers_counts_those_at_work(pool):
    need = need_for(worker_functions.double)
    free = pool.free_workers(need)
    taken = lease(pool, need)
    assert pool.free_workers(need) == free - 1
    taken.release()
