"""Who comes first among the requests of one class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lancegpu_sql.placement.kubernetes.fairness import (
    MOST_NAMED,
    Stage,
    Standing,
    held_back,
    over_limit,
    rightful,
    wanted,
)


def standing(name: str, asked_at: float, stage: Stage, **more: Any) -> Standing:
    """A request of job ``name``."""
    facts = {"job_id": name, "gpu_class": "l4", "gpus": 1, "arrival": int(asked_at), **more}
    return Standing(id=name, asked_at=asked_at, stage=stage, **facts)


def test_all_requests_of_one_size_may_have_pods():
    assert held_back([standing("a", 1, Stage.WAITING), standing("b", 2, Stage.HELD)]) == {}


def test_a_small_request_is_held_behind_an_older_larger_one():
    held = held_back([standing("large", 1, Stage.WAITING, gpus=2), standing("small", 2, Stage.HELD)])
    assert held["small"].older == ("large",)
    assert not held["small"].by_limit


def test_a_larger_request_that_no_node_can_ever_hold_holds_nobody_up():
    large = standing("large", 1, Stage.WAITING, gpus=2, for_room=False)
    assert held_back([large, standing("small", 2, Stage.HELD)]) == {}


def test_a_class_has_no_more_pods_than_its_limit():
    requests = [standing(name, at, Stage.HELD, max_workers=2) for at, name in enumerate("abc")]
    assert [name for name, held in held_back(requests).items() if held.by_limit] == ["c"]


def test_where_two_asked_at_once_beyond_a_limit_the_younger_gives_its_pod_back():
    requests = [standing("young", 2, Stage.PLACED, max_workers=1), standing("old", 1, Stage.WAITING, max_workers=1)]
    assert over_limit(requests) == {"young"}


def test_what_has_no_pod_or_is_ending_is_not_over_a_limit():
    requests = [standing("old", 1, Stage.LEAVING), standing("has it", 2, Stage.PLACED), standing("held", 3, Stage.HELD)]
    assert over_limit([replace(one, max_workers=1) for one in requests]) == frozenset()


def test_of_a_long_queue_the_first_are_named_and_all_are_counted():
    requests = [standing(f"{at:03}", at, Stage.HELD, max_workers=1) for at in range(100)]
    last = held_back(requests)["099"]
    assert last.older == tuple(f"{at:03}" for at in range(MOST_NAMED))
    assert last.older_count == 99


def test_what_another_class_waits_for_holds_nobody_up():
    large = standing("large", 1, Stage.WAITING, gpus=2, gpu_class="a100")
    assert held_back([large, standing("small", 2, Stage.HELD)]) == {}


def test_as_many_workers_are_wanted_as_others_wait_for():
    placed = [standing(name, at, Stage.PLACED) for at, name in enumerate("abc")]
    assert len(wanted([*placed, standing("waits", 9, Stage.WAITING)])) == 1


def test_a_worker_that_is_leaving_counts_for_who_waits():
    requests = [standing("a", 1, Stage.PLACED), standing("b", 2, Stage.LEAVING), standing("waits", 9, Stage.WAITING)]
    assert wanted(requests) == frozenset()


def test_the_job_with_most_workers_gives_first():
    mine = [standing(f"mine-{number}", number, Stage.PLACED, job_id="mine") for number in range(2)]
    requests = [standing("other", 5, Stage.PLACED), *mine, standing("waits", 9, Stage.WAITING)]
    assert wanted(requests) == {"mine-1"}


def test_jobs_with_as_many_workers_give_by_turns():
    placed = [standing(f"{job}-{at}", at, Stage.PLACED, job_id=job) for job in "ab" for at in range(3)]
    requests = [*placed, standing("c", 8, Stage.WAITING), standing("d", 9, Stage.WAITING)]
    assert wanted(requests) == {"a-2", "b-2"}


def test_an_idle_worker_goes_before_one_that_computes():
    busy = [standing(f"busy-{number}", number, Stage.PLACED, job_id="busy") for number in range(2)]
    requests = [standing("warm", 0, Stage.PLACED, idle=True), *busy, standing("waits", 9, Stage.WAITING)]
    assert wanted(requests) == {"warm"}


def test_three_jobs_share_two_gpus_by_turns():
    first = [standing(f"a-{number}", number, Stage.PLACED, job_id="a") for number in range(2)]
    both = [*first, standing("b", 8, Stage.WAITING), standing("c", 9, Stage.WAITING)]
    assert wanted(both) == {"a-0", "a-1"}


def test_nobody_is_wanted_for_a_pod_of_which_the_scheduler_has_not_spoken():
    assert wanted([standing("a", 1, Stage.PLACED), standing("new", 9, Stage.PLACING)]) == frozenset()


def test_a_pod_that_got_a_node_goes_to_the_oldest_that_waits_for_one_like_it():
    requests = [standing("old", 1, Stage.WAITING, shape="s"), standing("young", 2, Stage.PLACING, shape="s")]
    assert rightful(requests, "young") == "old"


def test_a_pod_of_another_shape_is_nobody_elses():
    requests = [standing("old", 1, Stage.WAITING, shape="s"), standing("young", 2, Stage.PLACING, shape="t")]
    assert rightful(requests, "young") == "young"
