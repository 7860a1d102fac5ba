"""Which class a worker is asked from, event by event."""

from __future__ import annotations

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.backup import Backups, Moves
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.request import Lost, Ready, Refused, Starting, Waiting

FULL = Waiting("in_use", "all are in use", can_be_met=True)
STARTING = Starting("starting")
BROKEN = Refused(InvalidPlacement("it has no image"))


def backups(*names: str, gpus: int = 1, **of_last: int) -> Backups:
    """A job's own class and its backups."""
    classes = [GpuClass(name=name) for name in ("own", *names)]
    return Backups([*classes[:-1], classes[-1].model_copy(update=of_last)], gpus)


def told(moves: Moves) -> Waiting:
    """What the job is told it waits for."""
    assert isinstance(moves.tell, Waiting)
    return moves.tell


def test_the_own_class_is_used_where_it_has_room() -> None:
    asked = backups("b")
    assert asked.hear(0, STARTING) == Moves(tell=STARTING)
    assert asked.chosen == 0


def test_without_backups_waiting_is_told_as_it_is() -> None:
    assert backups().hear(0, FULL) == Moves(tell=FULL)


def test_backups_are_asked_one_after_the_other_as_none_has_room() -> None:
    asked = backups("b", "c")
    assert asked.hear(0, FULL) == Moves(ask=1)
    assert asked.hear(1, FULL) == Moves(ask=2)
    waiting = told(asked.hear(2, FULL))
    assert waiting.message.startswith(
        "all are in use; its backups cannot have it now either: 'b' (in_use), 'c' (in_use)"
    )
    assert [one["gpu_class"] for one in waiting.detail["backups"]] == ["b", "c"]


def test_waiting_is_not_told_while_a_backup_has_yet_to_answer() -> None:
    asked = backups("b")
    asked.hear(0, FULL)
    assert asked.hear(0, Waiting("in_use", "one is in use")) == Moves()


def test_the_first_class_with_room_is_used_and_the_others_are_withdrawn() -> None:
    asked = backups("b", "c")
    for place in (0, 1, 2):
        asked.hear(place, FULL)
    assert asked.hear(1, STARTING) == Moves(tell=STARTING, withdraw=(0, 2))
    assert asked.chosen == 1
    assert asked.hear(0, STARTING) == Moves(), "it was under way when it was withdrawn"


def test_a_class_that_lost_its_room_again_is_waited_for_beside_the_own_one() -> None:
    asked = backups("b")
    asked.hear(0, FULL)
    asked.hear(1, STARTING)
    assert asked.hear(1, FULL) == Moves(ask=0)
    assert asked.chosen is None
    assert told(asked.hear(0, FULL)).reason == "in_use"


def test_what_is_wrong_with_the_own_class_is_no_reason_to_use_another() -> None:
    for wrong in (Waiting("untolerated_taint", "a taint"), Waiting("quota", "over the most", can_be_met=False)):
        assert backups("b").hear(0, wrong) == Moves(tell=wrong)
    assert backups("b").hear(0, BROKEN) == Moves(tell=BROKEN)


def test_a_backup_that_cannot_be_used_is_left_out_and_named() -> None:
    asked = backups("b", "c")
    asked.hear(0, FULL)
    assert asked.hear(1, BROKEN) == Moves(ask=2)
    assert "'b' (left out: it has no image)" in told(asked.hear(2, FULL)).message


def test_a_backup_with_too_few_gpus_for_a_worker_is_not_asked() -> None:
    asked = backups("b", gpus=2, max_gpu_count_per_worker=1)
    assert "'b' (left out: a worker of it has 1 GPUs at most)" in told(asked.hear(0, FULL)).message


def test_a_worker_that_is_lost_or_ready_is_told() -> None:
    asked = backups("b")
    asked.hear(0, FULL)
    asked.hear(1, STARTING)
    ready, lost = Ready("memory://1", "secret"), Lost("signal", "killed")
    assert asked.hear(1, ready) == Moves(tell=ready)
    assert asked.hear(1, lost) == Moves(tell=lost)
    assert asked.hear(0, lost) == Moves()
