"""What every placement must do, run against each of them.

A test class inherits `PlacementSuite` and gives the fixtures `placement` and `lose` (a call that lets the worker of a
ticket die). GPU classes are simulated ones, so no device is needed.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices
from lancegpu_sql.placement.interface import Placement, Ticket
from lancegpu_sql.placement.request import Lost, PlacementEvent, Ready, Starting, Waiting, Wanted, WorkerRequest

# A safety net: every wait ends with its event, long before.
TIMEOUT_SECONDS = 60.0

Event = TypeVar("Event", Waiting, Starting, Ready, Lost, Wanted)
_numbers = itertools.count(1)


def gpu_class(name: str = "l4", devices: int = 1, max_workers: int | None = None) -> GpuClass:
    """A class of simulated devices."""
    return GpuClass(name=name, max_workers=max_workers, local=LocalDevices(simulated=devices))


def request_for(
    where: GpuClass | None, *, gpus: int = 1, owner: str | None = None, asked_at: float | None = None
) -> WorkerRequest:
    """A request; each is younger than the ones before."""
    number = next(_numbers)
    return WorkerRequest(
        request_id=f"request {number}",
        job_id=f"job {number}",
        owner=owner or f"job {number}",
        function="embed",
        version=1,
        gpu_class=where,
        gpus=gpus,
        cpus=1,
        env={},
        asked_at=float(number) if asked_at is None else asked_at,
    )


class Inbox:
    """Keeps the events of a request, in their order."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[PlacementEvent] = queue.SimpleQueue()

    def __call__(self, event: PlacementEvent) -> None:
        self._queue.put(event)

    def next(self, kind: type[Event]) -> Event:
        """Wait for an event of that kind; others before it are dropped."""
        while True:
            event = self._queue.get(timeout=TIMEOUT_SECONDS)
            if isinstance(event, kind):
                return event

    def taken(self) -> list[PlacementEvent]:
        """What has come and was not asked for yet."""
        return [self._queue.get() for _ in range(self._queue.qsize())]


class Asked:
    """A request that was put to a placement, with what came of it."""

    def __init__(self, placement: Placement, request: WorkerRequest) -> None:
        self.events = Inbox()
        self.ticket: Ticket = placement.ask(request, self.events)

    def next(self, kind: type[Event]) -> Event:
        """Wait for an event of that kind."""
        return self.events.next(kind)

    def release(self) -> None:
        """Give the ticket back."""
        self.ticket.release()


Ask = Callable[..., Asked]


def waiting(asked: Iterable[Asked]) -> list[Waiting]:
    """Wait until all of these wait."""
    return [one.next(Waiting) for one in asked]


class PlacementSuite:
    """The behaviour of a placement."""

    @pytest.fixture
    def placement(self) -> Placement:
        raise NotImplementedError

    @pytest.fixture
    def lose(self) -> Callable[[Asked], None]:
        raise NotImplementedError

    # What differs: where devices come from, and in what words a placement speaks of them.

    logger = "lancegpu_sql.placement.watch"

    def gpu_class(self, name: str = "l4", devices: int = 1, max_workers: int | None = None) -> GpuClass:
        """A class of so many devices."""
        return gpu_class(name, devices, max_workers)

    def are_the_devices(self, devices: Iterable[str], name: str, count: int) -> bool:
        """Whether these are all devices of a class, each once."""
        return sorted(devices) == [f"simulated:{name}/{number}" for number in range(count)]

    def words_for(self, holder: Asked, owner: str) -> str:
        """How a message names a device in use."""
        return f"simulated:l4/0 by {owner}"

    no_device = ("no_device", "GPU class 'l4' has no devices")
    too_large = "has 1 device"

    @pytest.fixture(autouse=True)
    def _no_fault_of_our_own(self, caplog: pytest.LogCaptureFixture, placement: Placement) -> Iterator[None]:
        yield
        placement.close()
        assert [record.message for record in caplog.records if record.name == self.logger] == []

    @pytest.fixture
    def ask(self, placement: Placement) -> Ask:
        return lambda where, **more: Asked(placement, request_for(where, **more))

    def test_a_cpu_worker_starts_without_waiting(self, ask: Ask) -> None:
        asked = ask(None)
        assert asked.next(Ready).devices == ()

    def test_a_cpu_worker_starts_while_all_devices_are_in_use(self, ask: Ask) -> None:
        ask(self.gpu_class()).next(Ready)
        ask(None).next(Ready)

    def test_a_gpu_worker_starts_on_a_device_of_its_class(self, ask: Ask) -> None:
        assert self.are_the_devices(ask(self.gpu_class("l4")).next(Ready).devices, "l4", 1)

    def test_a_worker_is_starting_before_it_is_ready(self, ask: Ask) -> None:
        asked = ask(self.gpu_class())
        asked.next(Starting)
        asked.next(Ready)

    def test_workers_differ_in_address_and_token(self, ask: Ask) -> None:
        first, second = (ask(None).next(Ready) for _ in range(2))
        assert first.address != second.address
        assert first.token != second.token

    def test_a_token_does_not_show(self, ask: Ask) -> None:
        ready = ask(None).next(Ready)
        assert ready.token not in repr(ready)

    def test_no_device_is_given_twice(self, ask: Ask) -> None:
        devices = [ask(self.gpu_class(devices=3)).next(Ready).devices for _ in range(3)]
        assert self.are_the_devices([device for (device,) in devices], "l4", 3)

    def test_a_request_waits_while_all_devices_are_in_use_and_says_by_whom(self, ask: Ask) -> None:
        holder = ask(self.gpu_class(), owner="job 7 (refresh of reviews.score)")
        holder.next(Ready)
        message = ask(self.gpu_class()).next(Waiting)
        assert message.reason == "in_use"
        assert message.can_be_met is True
        assert self.words_for(holder, "job 7 (refresh of reviews.score)") in message.message

    def test_the_message_names_the_job_that_uses_the_worker_now(self, ask: Ask) -> None:
        holder = ask(self.gpu_class(), owner="job 7")
        holder.next(Ready)
        holder.ticket.assign("8", "job 8")
        assert "by job 8" in ask(self.gpu_class()).next(Waiting).message

    def test_a_waiting_request_is_told_when_another_job_takes_over_the_worker(self, ask: Ask) -> None:
        holder, waiter = ask(self.gpu_class(), owner="job 7"), ask(self.gpu_class())
        waiter.next(Waiting)
        holder.ticket.assign("8", "job 8")
        assert "by job 8" in waiter.next(Waiting).message

    def test_a_request_starts_when_a_device_is_free(self, ask: Ask) -> None:
        holder, waiter = ask(self.gpu_class()), ask(self.gpu_class())
        waiter.next(Waiting)
        holder.release()
        assert self.are_the_devices(waiter.next(Ready).devices, "l4", 1)

    def test_the_oldest_request_is_served_first(self, ask: Ask) -> None:
        holder, older, younger = ask(self.gpu_class()), ask(self.gpu_class()), ask(self.gpu_class())
        assert "1 older request before it" in younger.next(Waiting).message
        holder.release()
        older.next(Ready)
        assert not any(isinstance(event, Ready) for event in younger.events.taken())

    def test_an_older_request_that_comes_late_goes_first(self, placement: Placement, ask: Ask) -> None:
        late = request_for(self.gpu_class())
        holder = ask(self.gpu_class())
        holder.next(Ready)
        younger, older = ask(self.gpu_class()), Asked(placement, late)
        waiting([younger, older])
        holder.release()
        older.next(Ready)

    def test_a_request_for_two_devices_gets_two(self, ask: Ask) -> None:
        assert len(ask(self.gpu_class(devices=2), gpus=2).next(Ready).devices) == 2

    def test_a_request_for_two_devices_is_not_starved_by_requests_for_one(self, ask: Ask) -> None:
        pair = self.gpu_class(devices=2)
        first = ask(pair)
        first.next(Ready)
        both, later = ask(pair, gpus=2), ask(pair)
        waiting([both, later])
        first.release()
        assert len(both.next(Ready).devices) == 2

    def test_a_request_for_more_devices_than_there_are_waits_and_says_that(self, ask: Ask) -> None:
        message = ask(self.gpu_class(devices=1), gpus=2).next(Waiting)
        assert message.reason == "too_large"
        assert message.can_be_met is False
        assert self.too_large in message.message

    def test_a_request_that_cannot_be_met_holds_nobody_up(self, ask: Ask) -> None:
        ask(self.gpu_class(), gpus=2).next(Waiting)
        ask(self.gpu_class()).next(Ready)

    def test_a_class_without_devices_waits_and_says_that(self, ask: Ask) -> None:
        message = ask(self.gpu_class(devices=0)).next(Waiting)
        assert message.reason == self.no_device[0]
        assert message.can_be_met is False
        assert self.no_device[1] in message.message

    def test_a_class_allows_no_more_workers_than_its_limit(self, ask: Ask) -> None:
        limited = self.gpu_class(devices=2, max_workers=1)
        holder, waiter = ask(limited), ask(limited)
        assert waiter.next(Waiting).reason == "max_workers"
        holder.release()
        waiter.next(Ready)

    def test_classes_do_not_share_simulated_devices(self, ask: Ask) -> None:
        ask(self.gpu_class("l4")).next(Ready)
        ask(self.gpu_class("a100")).next(Ready)

    def test_a_holder_is_told_that_its_device_is_wanted(self, ask: Ask) -> None:
        holder = ask(self.gpu_class())
        holder.next(Ready)
        ask(self.gpu_class())
        holder.next(Wanted)
        assert holder.ticket.wanted

    def test_a_holder_is_not_wanted_for_what_it_does_not_have(self, ask: Ask) -> None:
        idle = ask(self.gpu_class("a100"))
        idle.next(Ready)
        busy = ask(self.gpu_class("l4"))
        ask(self.gpu_class("l4"))
        busy.next(Wanted)
        assert not idle.ticket.wanted

    def test_a_holder_is_not_wanted_by_what_can_never_be_met(self, ask: Ask) -> None:
        holder = ask(self.gpu_class())
        holder.next(Ready)
        ask(self.gpu_class(), gpus=2).next(Waiting)
        assert not holder.ticket.wanted

    def test_a_device_is_given_up_by_a_listener_that_hears_it_is_wanted(self, placement: Placement, ask: Ask) -> None:
        tickets: list[Ticket] = []
        inbox = Inbox()

        def give_up(event: PlacementEvent) -> None:
            inbox(event)
            if isinstance(event, Wanted):
                tickets[0].release()

        tickets.append(placement.ask(request_for(self.gpu_class()), give_up))
        inbox.next(Ready)
        ask(self.gpu_class()).next(Ready)

    def test_one_idle_worker_ends_for_one_request(self, placement: Placement, ask: Ask) -> None:
        tickets: list[Ticket] = []
        inboxes = [Inbox(), Inbox()]

        def listener(number: int) -> Callable[[PlacementEvent], None]:
            def note(event: PlacementEvent) -> None:
                inboxes[number](event)
                if isinstance(event, Wanted):
                    tickets[number].release()

            return note

        for number, inbox in enumerate(inboxes):
            tickets.append(placement.ask(request_for(self.gpu_class(devices=2)), listener(number)))
            inbox.next(Ready)
        ask(self.gpu_class(devices=2)).next(Ready)
        told = [inbox.taken() for inbox in inboxes]
        assert sorted(len(events) for events in told) == [0, 1], told

    def test_a_released_request_does_not_start(self, ask: Ask) -> None:
        holder, withdrawn, next_one = ask(self.gpu_class()), ask(self.gpu_class()), ask(self.gpu_class())
        withdrawn.next(Waiting)
        withdrawn.release()
        holder.release()
        next_one.next(Ready)
        assert not any(isinstance(event, Starting | Ready) for event in withdrawn.events.taken())

    def test_release_may_be_repeated(self, ask: Ask) -> None:
        asked = ask(self.gpu_class())
        asked.next(Ready)
        asked.release()
        asked.release()
        ask(self.gpu_class()).next(Ready)

    def test_a_lost_worker_is_told_and_frees_its_device(self, ask: Ask, lose: Callable[[Asked], None]) -> None:
        holder, waiter = ask(self.gpu_class()), ask(self.gpu_class())
        holder.next(Ready)
        lose(holder)
        assert holder.next(Lost).cause == "signal"
        waiter.next(Ready)
        holder.release()

    def test_free_workers_counts_what_would_start_now(self, placement: Placement, ask: Ask) -> None:
        four = self.gpu_class(devices=4)
        ask(four).next(Ready)
        assert placement.free_workers(four, gpus=1, cpus=1) == 3
        assert placement.free_workers(four, gpus=2, cpus=1) == 1
        assert placement.free_workers(four, gpus=5, cpus=1) == 0

    def test_free_workers_keeps_to_the_limit_of_the_class(self, placement: Placement, ask: Ask) -> None:
        limited = self.gpu_class(devices=4, max_workers=2)
        ask(limited).next(Ready)
        assert placement.free_workers(limited, gpus=1, cpus=1) == 1

    def test_at_least_one_cpu_worker_is_always_free(self, placement: Placement) -> None:
        assert placement.free_workers(None, gpus=1, cpus=10_000) == 1

    def test_a_listener_that_fails_does_not_stop_the_others(self, placement: Placement, ask: Ask) -> None:
        def fail(event: PlacementEvent) -> None:
            raise ValueError("a fault of this test's")

        placement.ask(request_for(None), fail)
        ask(None).next(Ready)

    def test_closing_ends_all(self, placement: Placement, ask: Ask) -> None:
        holder, waiter = ask(self.gpu_class()), ask(self.gpu_class())
        holder.next(Ready)
        placement.close()
        holder.release()
        waiter.release()
        placement.close()

    def test_a_request_keeps_its_age_when_it_is_asked_again(self, placement: Placement, ask: Ask) -> None:
        first = request_for(self.gpu_class())
        holder = ask(self.gpu_class())
        holder.next(Ready)
        younger = ask(self.gpu_class())
        again = Asked(placement, replace(first, request_id="asked again"))
        again.next(Waiting)
        holder.release()
        again.next(Ready)
        assert not any(isinstance(event, Ready) for event in younger.events.taken())
