"""One place for a worker: leases it, hands it calls, takes its results, and starts over when it is lost.

A slot's thread leases and sends; a second one receives, because Flight needs two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from lancegpu_sql.apply.board import Board
from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.watch import OneAtATime, on_backup
from lancegpu_sql.errors import Cancelled, WorkerLost
from lancegpu_sql.placement.request import Lost, LostCause, PlacementEvent, Waiting
from lancegpu_sql.workers.client import CallStream
from lancegpu_sql.workers.lease import Lease
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.pool import WorkerPool

_CAUSE_SECONDS = 2.0
"""How long to wait for the placement to say why a worker ended: it learns of it at about the same time."""

STOP_SECONDS = 2.0
"""How long the calls that run may take to finish when the work stops; then their workers are killed."""

_READING_SECONDS = 0.1
_TIMINGS_SECONDS = 1.0


class Slot:
    """A place for one worker.

    Parameters
    ----------
    board, need, pool, options, watch
        Of the `apply` it serves.
    own_class
        The GPU class of the job, of which `need` may be on a backup.
    stays
        Whether it serves to the end, through losses and however long it must wait for a worker. One that does not stay
        withdraws when there is no room, when others wait for its worker, and when its worker is lost.
    on_sent
        Called after each call that is sent, in the sending thread.
    on_result
        Called after each result, in the receiving thread.
    """

    def __init__(
        self,
        board: Board,
        need: WorkerNeed,
        pool: WorkerPool,
        options: ApplyOptions,
        watch: OneAtATime,
        *,
        own_class: str | None,
        stays: bool,
        on_sent: Callable[[], None],
        on_result: Callable[[], None],
    ) -> None:
        self._board = board
        self._need = need
        self._pool = pool
        self._options = options
        self._watch = watch
        self._own_class = own_class
        self._stays = stays
        self._on_sent = on_sent
        self._on_result = on_result
        self._interrupt = threading.Event()
        self._lease: Lease | None = None
        self._hand: Hand | None = None
        self._asking_health = False
        self._given_up: Lost | None = None
        self._starting_seconds = 0.0
        self._told_at = 0.0
        self.in_vain = False
        """Whether it withdrew without having had a worker."""
        self._thread = threading.Thread(target=self._run, name="apply-worker", daemon=True)

    # For the one who runs the apply.

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it still serves, or gets ready to."""
        return self._thread.is_alive()

    @property
    def starting(self) -> bool:
        """Whether its worker is still to come."""
        return self.alive and self._lease is None

    @property
    def starting_seconds(self) -> float:
        """What its worker took to be there once there was room for it, also where it was started before; 0 while it is not."""
        lease = self._lease
        return lease.start_cost_seconds if lease else 0.0

    @property
    def computed_before_seconds(self) -> float:
        """How long its worker computed for others before; 0 while it has none."""
        lease = self._lease
        return lease.computed_before_seconds if lease else 0.0

    def interrupt(self) -> None:
        """Stop waiting for a worker."""
        self._interrupt.set()

    def end(self, until: float) -> None:
        """Wait until it has given its worker back; from the time `until` on, kill the worker.

        While the slot reads the input, it is the input that takes the time, not the worker.
        """
        self._thread.join(max(0.0, until - time.monotonic()))
        while self._board.reads(self._hand):
            self._thread.join(_READING_SECONDS)
            until = time.monotonic() + STOP_SECONDS
        self._thread.join(max(0.0, until - time.monotonic()))
        if self.alive:
            self._kill()
        self._thread.join()

    def look(self, now: float) -> None:
        """Give up a call that is over its time, and a worker that does not answer any more."""
        hand = self._hand
        if hand is None or not hand.calls or hand.lost:
            return
        limit = self._options.call_timeout_seconds
        if limit is not None and self._board.time_out(hand, limit, now):
            self._give_up(hand, f"was ended: its call took longer than {limit:g} seconds")
        elif now - hand.heard_at > self._options.silence_seconds and not self._asking_health:
            self._asking_health = True
            threading.Thread(target=self._ask_health, args=(hand,), name="apply-health", daemon=True).start()

    # Its own thread.

    def _run(self) -> None:
        try:
            if self._stays:
                self._serve_to_the_end()
            else:
                self._serve_for_a_while()
        except BaseException as exc:
            self._board.fail(exc)

    def _serve_to_the_end(self) -> None:
        losses = 0
        while not self._board.over:
            try:
                self._serve()
                losses = 0
            except WorkerLost as exc:  # before it was ready
                self._watch.event("worker_lost", exc.message)
                if self._outgrown(exc.facts.get("cause"), exc.facts.get("cpu_rung")):
                    continue
                if losses >= self._options.max_worker_losses:
                    raise
                losses += 1

    def _serve_for_a_while(self) -> None:
        try:
            self._serve()
        except Cancelled:
            self.in_vain = True
        except WorkerLost as exc:
            self._watch.event("worker_lost", exc.message)
            self._outgrown(exc.facts.get("cause"), exc.facts.get("cpu_rung"))
        except Exception as exc:
            # The first worker does the work all the same; if it cannot, it will say so.
            self.in_vain = True
            self._watch.event("worker_not_added", str(exc))

    def _serve(self) -> None:
        """Lease a worker, use it as long as there is work, give it back."""
        asked = time.monotonic()
        need = replace(self._need, avoid=self._board.avoided_places)
        lease = self._lease = self._pool.lease(need, self._placement_event, self._interrupt)
        self._starting_seconds = time.monotonic() - asked
        hand = self._hand = Hand(
            lease.worker_name,
            self._stays,
            lease.calls_at_once,
            lease.gpu_class,
            places=lease.places,
            devices=lease.devices,
            fits_rows=self._pool.fits_rows(need, lease.gpu_class),
            rows_per_second_before=lease.rows_per_second_before,
        )
        self._board.join(hand)
        try:
            self._watch.log(lease.load_log)
            if not self._stays:
                self._watch.event("worker_added", f"{lease.worker_name} computes as well{self._where(lease)}")
            self._exchange(lease, hand)
        except WorkerLost:
            self._board.mark_lost(hand)
        finally:
            self._settle(lease, hand)

    def _where(self, lease: Lease) -> str:
        own = self._own_class
        return "" if lease.gpu_class == own else f", {on_backup(str(lease.gpu_class), str(own))}"

    def _exchange(self, lease: Lease, hand: Hand) -> None:
        stream = lease.client.open_stream()
        receiver = threading.Thread(target=self._receive, args=(stream, hand), name="apply-results", daemon=True)
        receiver.start()
        try:
            while (call := self._next_call(lease, hand)) is not None:
                stream.send(call.id, call.rows.arguments)
                self._on_sent()
            if self._board.cut_short:
                stream.stop()
            else:
                stream.done_sending()
        except BaseException:
            stream.cancel()
            raise
        finally:
            receiver.join()
            stream.close()

    def _next_call(self, lease: Lease, hand: Hand) -> Call | None:
        if not self._stays and lease.wanted:
            hand.leaving = True
        return self._board.next_call(hand)

    def _receive(self, stream: CallStream, hand: Hand) -> None:
        try:
            while (result := stream.receive()) is not None:
                rows = self._board.complete(hand, result)
                if result.failure is None:
                    self._watch.call_done(rows, result.seconds, hand.worker, result.log)
                else:
                    self._watch.log(result.log)
                if self._board.has_news:
                    self._tell_news()
                if hand.spoiled is not None:
                    self._give_up(hand, hand.spoiled)
                self._tell_timings(hand)
                self._on_result()
        except WorkerLost:
            self._board.mark_lost(hand)
        except BaseException as exc:
            self._board.fail(exc)
        if self._board.owed(hand):  # it ended politely, with calls undone
            self._board.mark_lost(hand)

    def _settle(self, lease: Lease, hand: Hand) -> None:
        """Give the worker back, and its calls to others if it was lost."""
        self._hand = None
        try:
            if hand.lost and not self._board.stopped:
                why = self._given_up or lease.why_lost(_CAUSE_SECONDS)
                self._given_up = None
                self._watch.event("worker_lost", why.message)
                # What a larger worker may well compute is not blamed for the loss of a smaller one.
                blamed = hand.spoiled is None and not self._outgrown(why.cause, lease.cpu_rung)
                self._board.hand_back(hand, why, blamed=blamed)
                self._tell_news()
        finally:
            self._board.leave(hand)
            lease.note_computed(hand.computing_seconds, hand.rows_done)
            lease.release(broken=hand.lost)
            self._lease = None
        self._tell_timings(hand, at_end=True)

    def _tell_news(self) -> None:
        for news in self._board.take_news():
            if news.fits_rows is not None:
                self._pool.keep_fits_rows(self._need, news.gpu_class, news.fits_rows)
            self._watch.event(news.kind, news.message)

    def _outgrown(self, cause: LostCause | None, cpu_rung: str | None) -> bool:
        """Whether the next worker is larger because one was lost for memory."""
        told = self._pool.outgrow(self._need, cause, cpu_rung)
        if told is not None:
            self._watch.event("worker_outgrown", told)
        return told is not None

    # Its worker's life.

    def _placement_event(self, event: PlacementEvent) -> None:
        if self._stays:
            self._watch.placement_event(event)
        elif isinstance(event, Waiting):
            self._interrupt.set()

    def _ask_health(self, hand: Hand) -> None:
        lease, limit, asked = self._lease, self._options.health_timeout_seconds, time.monotonic()
        try:
            if lease is not None:
                lease.client.health(limit)
                hand.heard_at = time.monotonic()
        except WorkerLost:
            if time.monotonic() - asked < limit:
                # It ended, and its stream should have ended with it; one that did not would be waited for for ever.
                self._give_up(hand, "computes no more", lease.why_lost(_CAUSE_SECONDS) if lease else None)
                return
            self._give_up(
                hand,
                f"did not answer for {limit:g} seconds and was ended: it is stopped, or its Function holds the "
                "interpreter lock all the time",
            )
        finally:
            self._asking_health = False

    def _give_up(self, hand: Hand, why: str, lost: Lost | None = None) -> None:
        if self._hand is hand and not hand.lost:
            self._given_up = lost or Lost("unreachable", f"{hand.worker} {why}")
            self._kill()

    def _kill(self) -> None:
        lease = self._lease
        if lease is not None:
            lease.release(broken=True)

    def _tell_timings(self, hand: Hand, *, at_end: bool = False) -> None:
        now = time.monotonic()
        if not at_end and now - self._told_at < _TIMINGS_SECONDS:
            return
        self._told_at = now
        self._watch.worker_timings(hand.timings(self._starting_seconds, now))
