"""Workers as processes of this machine, on devices that all of a user's processes share through the host's ledger."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.errors import StorageError
from lancegpu_sql.functions.environment_store import EnvironmentStore
from lancegpu_sql.functions.secret_sources import refuse_kubernetes_sources
from lancegpu_sql.placement.devices import ClassDevices, DriverReport, devices_of, nvidia_devices
from lancegpu_sql.placement.host import MemoryKills, available_cores
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener
from lancegpu_sql.placement.leases import Claim, room, wanted_by, why_waiting
from lancegpu_sql.placement.ledger import Ledger
from lancegpu_sql.placement.local_ticket import WORKER_ARGUMENTS, LocalTicket, Site
from lancegpu_sql.placement.mailbox import Mailbox, sweep
from lancegpu_sql.placement.own_claims import OwnClaims
from lancegpu_sql.placement.request import Preparing, RequestState, Waiting, WorkerRequest, refuse_queue
from lancegpu_sql.placement.runtime_folder import default_runtime_folder, open_runtime_folder
from lancegpu_sql.placement.vigil import Vigil
from lancegpu_sql.placement.watch import WatchThread

if TYPE_CHECKING:
    from lancegpu_sql.placement.cpu_ladder import CpuRung
    from lancegpu_sql.placement.gpu_class import GpuClass

WORKER_COMMAND = (sys.executable, *WORKER_ARGUMENTS)

# Changes come as messages and deaths as descriptors, at once. A look now and then is for what sends neither: a driver
# that gets installed, a folder that is cleared away.
_RECHECK_SECONDS = 5.0
# ... a disk that was full, a holder in another container.
_UNEASY_RECHECK_SECONDS = 1.0


class LocalPlacement:
    """Runs workers on this machine, each on devices that it has for itself.

    A GPU worker starts when the host's ledger gives it devices of its class, a CPU worker at once. Events come from one
    thread, which also starts the processes.

    Parameters
    ----------
    runtime_folder
        Where the processes of this host share its devices; all must use the same. None takes the user's own.
    command
        What runs a worker; ``--socket PATH`` is put after it.
    driver
        Lists the machine's real devices.
    environments
        Makes and keeps the environments of Functions that ask for packages; by default in the user's own folder.
    """

    def __init__(
        self,
        runtime_folder: str | Path | None = None,
        *,
        command: Sequence[str] = WORKER_COMMAND,
        driver: Callable[[], DriverReport] = nvidia_devices,
        environments: EnvironmentStore | None = None,
    ) -> None:
        self._environments = environments or EnvironmentStore()
        self._folder = default_runtime_folder() if runtime_folder is None else Path(runtime_folder).absolute()
        self._command = tuple(command)
        self._driver = driver
        self._report: DriverReport | None = None
        self._lock = threading.Lock()
        self._site: Site | None = None
        self._vigil: Vigil | None = None
        self._process_id = os.getpid()
        self._closed = False

    @property
    def cpu_ladder(self) -> tuple[CpuRung, ...]:
        """None: CPU workers share this machine."""
        return ()

    def attach(self, database: str) -> None:
        """Hear which database asks; all of a user's databases share the devices of this machine."""

    def prepare(self, request: WorkerRequest, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Make an environment on this machine; see `Placement.prepare`."""
        environment = request.environment
        if environment is None:
            return
        count = len(environment.packages)
        told = f"Installing {count} package{'' if count == 1 else 's'} for Python {environment.python_version}"
        self._environments.make(environment, interrupted, lambda: listener(Preparing(told)))

    def ask(self, request: WorkerRequest, listener: Listener) -> LocalTicket:
        """Ask for one worker and return at once; see `Placement.ask`."""
        refuse_queue(request)
        refuse_kubernetes_sources(request.function, request.secrets)
        site = self._open()
        ticket = LocalTicket(site, request, listener)
        site.tickets[request.request_id] = ticket
        try:
            if request.gpu_class is None:
                site.watch.call(lambda: ticket.start(()))
            else:
                # The ledger wakes everybody whom the claim concerns, this placement first.
                site.claims.enter(self._claim(site, request, self._devices(request.gpu_class), ticket.mark))
        except BaseException:
            del site.tickets[request.request_id]
            site.watch.call(self._review)  # takes back what was written all the same
            raise
        return ticket

    def free_workers(self, gpu_class: GpuClass | None, gpus: int, cpus: int) -> int:
        """Return how many workers like this, if asked for now, would start at once; for CPU workers by cores."""
        if gpu_class is None:
            return max(1, available_cores() // cpus)
        site = self._open()
        request = WorkerRequest("", "", "", "", 0, gpu_class, gpus, cpus, {}, 0.0)
        return room(site.claims.look(), self._claim(site, request, self._devices(gpu_class)))

    def close(self) -> None:
        """Release every ticket and stop listening."""
        if self._process_id != os.getpid():
            return  # a process that forked off; the lock may have been held when it did
        with self._lock:
            site, self._site, self._closed = self._site, None, True
        if site is None:
            return
        atexit.unregister(self.close)
        tickets = tuple(site.tickets.values())
        ending = [ticket for ticket in tickets if ticket.begin_release()]
        # All end side by side, within one grace.
        deadline = time.monotonic() + CLOSE_GRACE_SECONDS
        for ticket in ending:
            ticket.finish_release(max(0.0, deadline - time.monotonic()))
        for ticket in tickets:
            ticket.release()
        site.watch.call(site.mailbox.close)
        site.watch.close()

    def _open(self) -> Site:
        with self._lock:
            if self._closed:
                raise RuntimeError("this placement is closed")
            if self._process_id != os.getpid():
                # A forked process has neither the thread nor any right to the workers of the one it came from.
                self._site, self._process_id = None, os.getpid()
            if self._site is None:
                self._site = self._set_up()
                atexit.register(self.close)
            return self._site

    def _set_up(self) -> Site:
        open_runtime_folder(self._folder)
        try:
            sweep(self._folder)
            mailbox = Mailbox(self._folder)
        except OSError as exc:
            raise StorageError(
                f"no worker can be started: the runtime folder {self._folder} cannot be written to "
                f"({exc.strerror or exc}); set LANCEGPU_RUNTIME_FOLDER to another one",
                path=str(self._folder),
            ) from exc
        watch = WatchThread("lancegpu-placement", on_timeout=self._review)
        claims = OwnClaims(Ledger(self._folder))
        site = Site(self._command, watch, mailbox, claims, MemoryKills(), self._environments)
        self._vigil = Vigil(watch, self._review)
        watch.call(lambda: watch.watch(mailbox.fileno(), self._read_mail))
        return site

    def _claim(self, site: Site, request: WorkerRequest, found: ClassDevices, mark: str = "") -> Claim:
        assert request.gpu_class is not None
        return Claim(
            id=request.request_id,
            owner=request.owner,
            gpu_class=request.gpu_class.name,
            candidates=_candidates(found, request),
            gpus=request.gpus,
            max_workers=request.gpu_class.max_workers,
            asked_at=request.asked_at,
            mailbox=site.mailbox.name,
            process=ProcessIdentity.current(),
            mark=mark,
        )

    def _devices(self, gpu_class: GpuClass) -> ClassDevices:
        return devices_of(gpu_class, self._ask_driver)

    def _ask_driver(self) -> DriverReport:
        # Devices do not come and go while a driver runs; a driver that is not there may be installed.
        if self._report is None or self._report.problem is not None:
            self._report = self._driver()
        return self._report

    def _read_mail(self) -> None:
        if (site := self._site) is not None:
            site.mailbox.empty()
            self._review()

    def _review(self) -> None:
        """Look at the ledger and tell each request what that means for it; only on the watch thread."""
        site = self._site
        if site is None:
            return
        tickets = [ticket for ticket in tuple(site.tickets.values()) if ticket.request.gpu_class is not None]
        try:
            site.claims.look()
        except StorageError as exc:
            for ticket in tickets:
                if ticket.state in (RequestState.ASKED, RequestState.WAITING):
                    ticket.wait(Waiting("runtime_folder", str(exc)))
            site.watch.timeout_seconds = _UNEASY_RECHECK_SECONDS
            return
        for ticket in tickets:
            self._advance(site, ticket)
        self._watch_others(site)

    def _advance(self, site: Site, ticket: LocalTicket) -> None:
        # Read anew for each ticket: a listener may have given devices back meanwhile.
        claims = site.claims.seen
        claim = next((claim for claim in claims if claim.id == ticket.request.request_id), None)
        if claim is None:
            return
        if ticket.state not in (RequestState.ASKED, RequestState.WAITING):
            ticket.want(wanted_by(claims, claim))
        elif claim.devices:
            ticket.start(claim.devices)
        else:
            assert ticket.request.gpu_class is not None
            found = self._devices(ticket.request.gpu_class) if not claim.can_be_met else None
            ticket.wait(why_waiting(claims, claim, found.problem if found else None))
            if found and (candidates := _candidates(found, ticket.request)) != claim.candidates:
                site.claims.change(claim.id, candidates=candidates)

    def _watch_others(self, site: Site) -> None:
        waits = any(ticket.state is RequestState.WAITING for ticket in tuple(site.tickets.values()))
        others: set[ProcessIdentity] = set()
        haunted = False
        if waits:
            for claim in site.claims.seen:
                # Of the dead there is no further news; what they left behind ends without any.
                living = [one for one in (claim.process, claim.worker) if one and one.is_alive() is not False]
                others.update(living)
                haunted = haunted or not living
            others.discard(ProcessIdentity.current())
        assert self._vigil is not None
        easy = self._vigil.keep_over(others) and not site.claims.unwritten and not haunted
        busy = any(ticket.request.gpu_class is not None for ticket in tuple(site.tickets.values()))
        site.watch.timeout_seconds = (_RECHECK_SECONDS if busy else None) if easy else _UNEASY_RECHECK_SECONDS


def _candidates(found: ClassDevices, request: WorkerRequest) -> tuple[str, ...]:
    """Return the devices that would do: those to keep off are left out, where enough others are left."""
    every = tuple(device.id for device in found.devices)
    others = tuple(device for device in every if device not in request.avoid)
    return others if len(others) >= request.gpus else every
