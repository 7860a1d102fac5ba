"""Environments that nobody uses any more go; those that somebody uses, or needs, stay."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from lancegpu_sql import connect
from lancegpu_sql.functions.environment_uses import (
    LOCK_FILE,
    KeptEnvironment,
    hold,
    kept_environments,
    mark_used,
    take_away_unused,
)

LONG_AGO = time.time() - 60 * 86_400


@pytest.fixture
def kept(tmp_path: Path) -> KeptEnvironment:
    """An environment that was used long ago, as it was looked at."""
    return environment(tmp_path / "environments" / ("a" * 32))


def environment(place: Path) -> KeptEnvironment:
    (place / "bin").mkdir(parents=True)
    (place / LOCK_FILE).touch()
    os.utime(place / LOCK_FILE, (LONG_AGO, LONG_AGO))
    return next(one for one in kept_environments(place.parent) if one.path == place)


def test_one_that_nobody_uses_is_taken_away_with_all_its_files(kept: KeptEnvironment) -> None:
    assert take_away_unused(kept)
    assert list(kept.path.parent.iterdir()) == []


def test_one_that_is_held_stays_and_counts_as_used(kept: KeptEnvironment) -> None:
    descriptor = hold(kept.path)
    assert descriptor is not None
    os.utime(kept.path / LOCK_FILE, (LONG_AGO, LONG_AGO))  # by a worker that has run for long
    assert not take_away_unused(kept)
    os.close(descriptor)
    (seen,) = kept_environments(kept.path.parent)
    assert seen.used_at > kept.used_at
    assert take_away_unused(seen)


def test_one_that_was_used_since_it_was_looked_at_stays(kept: KeptEnvironment) -> None:
    mark_used(kept.path)
    assert not take_away_unused(kept)
    assert kept.path.exists()


def test_one_that_is_gone_cannot_be_held(kept: KeptEnvironment) -> None:
    assert take_away_unused(kept)
    assert hold(kept.path) is None


def test_what_a_killed_maker_left_goes_while_nobody_makes_it(kept: KeptEnvironment) -> None:
    left = kept.path.with_name(f"{kept.digest}.new-0123abcd")
    kept.path.rename(left)
    (found,) = kept_environments(left.parent)
    with (left.parent / f"{kept.digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not take_away_unused(found)
    assert take_away_unused(found)
    assert not left.exists()


def test_upkeep_takes_those_that_were_not_used_for_as_long_as_the_setting_says(tmp_path: Path) -> None:
    folder = tmp_path / "environments"
    environment(folder / ("a" * 32))
    mark_used(environment(folder / ("b" * 32)).path)
    with connect(tmp_path / "db", environment_folder=folder, environment_retention_days=61) as db:
        assert db.remove_left_over().removed == 0
    with connect(tmp_path / "db", environment_folder=folder) as db:
        assert [step.action for step in db.remove_left_over(dry_run=True).steps] == ["remove environments"]
        assert db.remove_left_over().removed == 1
    assert [path.name for path in folder.iterdir()] == ["b" * 32]
