"""Which worker serves which need."""

from __future__ import annotations

from dataclasses import replace

import worker_functions
from applied import need_for

from lancegpu_sql.placement import GpuClass

L4 = GpuClass(name="l4")
QUEUED = GpuClass(name="l4", queue="all")


def test_a_worker_that_another_queue_admitted_serves_nobody_elses_quota() -> None:
    plain = need_for(worker_functions.double, gpu_class=L4)
    team = replace(plain, queue="team-a")
    assert team.met_by(team)
    assert not team.met_by(plain)
    assert not plain.met_by(team)


def test_the_queue_of_the_class_named_again_is_the_same_queue() -> None:
    of_class = need_for(worker_functions.double, gpu_class=QUEUED)
    assert replace(of_class, queue="all").met_by(of_class)
