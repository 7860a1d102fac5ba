"""Asks for a worker on one of two devices, uses it, gives it back, and again: until it is killed.

Usage: python placement_chaos_program.py RUNTIME_FOLDER PROOF_FOLDER

Each worker locks a file named after its device before it "uses" it, and notes a conflict where that is locked already.
"""

from __future__ import annotations

import queue
import socket
import sys
import time
import uuid
from contextlib import suppress

from lancegpu_sql.placement.devices import Device, DriverReport
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices
from lancegpu_sql.placement.local import LocalPlacement
from lancegpu_sql.placement.request import Lost, PlacementEvent, Ready, WorkerRequest

DEVICES = DriverReport((Device("GPU-aaaa", 0), Device("GPU-bbbb", 1)))
GPU_CLASS = GpuClass(name="real", local=LocalDevices(devices="auto"))

# As a real worker, it touches its device only once its owner has told it what to load, and takes a while to end.
WORKER = """
import fcntl, os, socket, sys, threading, time
def end_with_owner():
    sys.stdin.buffer.read()
    time.sleep(0.1)
    os._exit(0)
threading.Thread(target=end_with_owner, daemon=True).start()
inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
inbox.bind(sys.argv[-1])
print("ready", flush=True)
inbox.recv(1)
device = open(os.path.join(os.environ["PROOFS"], os.environ["CUDA_VISIBLE_DEVICES"]), "w")
try:
    fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(os.path.join(os.environ["PROOFS"], "conflict"), "w").close()
open(os.path.join(os.environ["PROOFS"], "used"), "a").write("x")
threading.Event().wait()
"""


def main() -> None:
    folder, proofs = sys.argv[1:]
    placement = LocalPlacement(folder, command=(sys.executable, "-S", "-c", WORKER), driver=lambda: DEVICES)
    loader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    while True:
        events: queue.SimpleQueue[PlacementEvent] = queue.SimpleQueue()
        request = WorkerRequest(
            uuid.uuid4().hex, "job", "job", "embed", 1, GPU_CLASS, 1, 1, {"PROOFS": proofs}, time.time()
        )
        ticket = placement.ask(request, events.put)
        while not isinstance(event := events.get(), Ready | Lost):
            pass
        if isinstance(event, Ready):
            with suppress(OSError):  # it may have been killed meanwhile
                loader.sendto(b"!", event.address.removeprefix("grpc+unix://"))
            print(event.worker_pid, flush=True)
        ticket.release()


if __name__ == "__main__":
    main()
