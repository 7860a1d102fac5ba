"""What a local placement does with the process of a worker."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from placement_program import STAND_IN
from placement_suite import TIMEOUT_SECONDS, Asked, gpu_class, request_for

from lancegpu_sql.errors import StorageError
from lancegpu_sql.placement.devices import Device, DriverReport
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import Lost, Ready, Waiting, WorkerRequest

Start = Callable[..., Asked]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    placements: list[LocalPlacement] = []

    def start(program: str, request: WorkerRequest | None = None, **more: Any) -> Asked:
        """Ask for a worker that runs this program."""
        command = (sys.executable, "-S", "-c", f"import os, signal, sys, time\n{program}")
        placements.append(LocalPlacement(tmp_path / "run", command=command, **more))
        return Asked(placements[-1], request or request_for(None))

    yield start
    for placement in placements:
        placement.close()


def ended(pid: int) -> bool:
    """Wait for a process that is no child of ours to end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], TIMEOUT_SECONDS)[0])
    finally:
        os.close(descriptor)


def environment_of(asked: Asked) -> dict[str, str]:
    """The environment of a worker that writes it as its last words."""
    words = asked.next(Lost).message.partition("\n")[2]
    found: dict[str, str] = json.loads(words)
    return found


SAY_ENVIRONMENT = """
import json
print(json.dumps({name: value for name, value in os.environ.items()
    if name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MODEL")}), file=sys.stderr)
"""


def test_an_exit_is_told_with_its_code_and_the_last_words(start: Start) -> None:
    lost = start("print('no model here', file=sys.stderr); sys.exit(3)").next(Lost)
    assert lost.cause == "exit"
    assert "of Function embed (version 1) ended with exit code 3" in lost.message
    assert lost.message.endswith("no model here")


def test_a_signal_is_named(start: Start) -> None:
    lost = start("os.kill(os.getpid(), signal.SIGSEGV)").next(Lost)
    assert lost.cause == "signal"
    assert "was killed by SIGSEGV" in lost.message


def test_a_command_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    placement = LocalPlacement(tmp_path / "run", command=("/no/such/python",))
    lost = Asked(placement, request_for(gpu_class())).next(Lost)
    assert "could not be started" in lost.message
    assert placement.free_workers(gpu_class(), 1, 1) == 1
    placement.close()


def test_a_worker_that_writes_much_is_not_blocked(start: Start) -> None:
    start("sys.stderr.write('x' * 1_000_000); print('ready', flush=True); sys.stdin.read()").next(Ready)


def test_only_a_whole_line_says_that_the_worker_serves(start: Start) -> None:
    program = (
        "print('not ready', flush=True); os.write(1, b'rea'); time.sleep(0.01); os.write(1, b'dy\\n'); sys.exit(3)"
    )
    asked = start(program)
    asked.next(Ready)
    asked.next(Lost)


def test_the_socket_stands_in_a_private_folder_and_its_path_is_short_enough(start: Start) -> None:
    ready = start("print('ready', flush=True); sys.stdin.read()").next(Ready)
    path = Path(ready.address.removeprefix("grpc+unix://"))
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(path)) <= 107


def test_a_long_runtime_folder_still_gives_short_socket_paths(tmp_path: Path) -> None:
    placement = LocalPlacement(tmp_path / ("long" * 40), command=STAND_IN)
    ready = Asked(placement, request_for(gpu_class())).next(Ready)
    path = Path(ready.address.removeprefix("grpc+unix://"))
    assert len(os.fsencode(path)) <= 107
    assert path.parent.stat().st_mode & 0o777 == 0o700
    placement.close()
    assert not path.parent.exists()


def test_a_worker_imports_nothing_from_the_folder_its_owner_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hmac.py").write_text("raise RuntimeError('not Python's own')")
    monkeypatch.chdir(tmp_path)
    with closing(LocalPlacement(tmp_path / "run")) as placement:
        assert Asked(placement, request_for(None)).next(Ready)


def test_a_cpu_worker_sees_no_device(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert environment_of(start(SAY_ENVIRONMENT))["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_worker_sees_its_device_alone(start: Start) -> None:
    real = GpuClass(name="l4", local=LocalDevices(devices=(1,)))
    driver = DriverReport((Device("GPU-aa", 0), Device("GPU-bb", 1)))
    asked = start(SAY_ENVIRONMENT, request_for(real), driver=lambda: driver)
    assert environment_of(asked)["CUDA_VISIBLE_DEVICES"] == "GPU-bb"


def test_a_worker_has_the_threads_and_the_environment_of_its_function(start: Start) -> None:
    request = replace(request_for(None), cpus=3, env={"MODEL": "small", "CUDA_VISIBLE_DEVICES": "7"})
    assert environment_of(start(SAY_ENVIRONMENT, request)) == {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "3",
        "MODEL": "small",
    }


def test_a_worker_that_does_not_end_by_itself_is_killed(start: Start) -> None:
    asked = start("print('ready', flush=True)\nwhile True: time.sleep(1000)")
    pid = asked.next(Ready).worker_pid
    assert pid is not None
    asked.ticket.release(grace_seconds=0)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("ending", ["sys.stdin.read()", "os._exit(1)"], ids=["released", "lost"])
def test_what_a_worker_started_ends_with_it(start: Start, tmp_path: Path, ending: str) -> None:
    note = tmp_path / "child"
    asked = start(
        f"child = os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '1000')\n"
        f"open({str(note)!r}, 'w').write(str(child))\nprint('ready', flush=True)\n{ending}"
    )
    asked.next(Ready)
    asked.release()
    assert ended(int(note.read_text()))


def test_an_interrupt_of_the_owners_terminal_does_not_reach_a_worker(start: Start) -> None:
    pid = start("print('ready', flush=True); sys.stdin.read()").next(Ready).worker_pid
    assert pid is not None
    assert os.getsid(pid) == pid


def test_a_worker_outlives_the_thread_that_asked_for_it(start: Start) -> None:
    die_with_parent = "import ctypes; ctypes.CDLL(None).prctl(1, signal.SIGKILL)"
    asked: list[Asked] = []
    program = f"{die_with_parent}\nprint('ready', flush=True); sys.stdin.read()"
    thread = threading.Thread(target=lambda: asked.append(start(program)))
    thread.start()
    thread.join()
    pid = asked[0].next(Ready).worker_pid
    assert pid is not None
    asked[0].release()
    assert not any(isinstance(event, Lost) for event in asked[0].events.taken())


def test_a_request_released_while_its_worker_starts_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    placement = LocalPlacement(folder, command=STAND_IN)
    for _ in range(20):
        Asked(placement, request_for(gpu_class())).release()
    assert placement.free_workers(gpu_class(), 1, 1) == 1
    placement.close()
    assert sorted(path.name for path in folder.iterdir()) == ["ledger.json", "ledger.lock"]


def test_a_class_without_local_devices_waits_and_says_so(start: Start) -> None:
    waiting = start("pass", request_for(GpuClass(name="h100"))).next(Waiting)
    assert waiting.can_be_met is False
    assert "GPU class 'h100' has no devices on this machine: the class has no 'local' section" in waiting.message


def test_a_runtime_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    placement = LocalPlacement(tmp_path / "file" / "run", command=STAND_IN)
    with pytest.raises(StorageError, match="Not a directory"):
        placement.ask(request_for(None), lambda event: None)


def test_a_ledger_that_is_cleared_away_does_not_give_a_device_twice(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    placement = LocalPlacement(folder, command=STAND_IN)
    holder = Asked(placement, request_for(gpu_class()))
    holder.next(Ready)
    (folder / "ledger.json").unlink()
    waiter = Asked(placement, request_for(gpu_class()))
    waiter.next(Waiting)
    holder.release()
    waiter.next(Ready)
    placement.close()


def test_two_placements_of_one_process_share_devices(tmp_path: Path) -> None:
    first, second = (LocalPlacement(tmp_path / "run", command=STAND_IN) for _ in range(2))
    holder = Asked(first, request_for(gpu_class()))
    holder.next(Ready)
    waiter = Asked(second, request_for(gpu_class()))
    waiter.next(Waiting)
    first.close()
    waiter.next(Ready)
    second.close()
