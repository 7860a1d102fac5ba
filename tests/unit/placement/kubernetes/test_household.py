"""What a database owns in a cluster, and which of its placements live."""

from __future__ import annotations

import json
import os

import pytest
from fake_cluster import FakeCluster, refused

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.errors import ClusterRefused
from lancegpu_sql.placement.kubernetes.household import Household, placement_selector


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def household(cluster: FakeCluster) -> Household:
    return Household(cluster, "sqlite:///music")


def entries(cluster: FakeCluster, household: Household) -> dict[str, str]:
    found = cluster.find("ConfigMap", household.name)
    assert found is not None
    return dict(found["data"])


def test_the_owner_is_made_once(cluster: FakeCluster, household: Household):
    assert household.owner() == household.owner()
    assert cluster.count("create", "ConfigMap") == 1


def test_placements_of_one_database_share_their_owner(cluster: FakeCluster, household: Household):
    other = Household(cluster, "sqlite:///music")
    assert household.owner() == other.owner()
    assert entries(cluster, household).keys() == {household.placement, other.placement}


def test_databases_have_owners_of_their_own(cluster: FakeCluster, household: Household):
    assert Household(cluster, "sqlite:///films").owner() != household.owner()


def test_an_owner_that_was_removed_is_made_again(cluster: FakeCluster, household: Household):
    first = household.owner()
    cluster.remove("ConfigMap", household.name)
    household.beat()
    assert household.owner()["uid"] != first["uid"]


def test_a_refusal_is_not_taken_for_an_owner_that_exists(cluster: FakeCluster, household: Household):
    cluster.lasting["create", "ConfigMap"] = refused(422)
    with pytest.raises(ClusterRefused):
        household.owner()


def test_each_beat_is_another(cluster: FakeCluster, household: Household):
    household.owner()
    first = entries(cluster, household)
    household.beat()
    assert entries(cluster, household) != first


def test_one_that_leaves_has_no_entry(cluster: FakeCluster, household: Household):
    household.owner()
    household.leave()
    assert entries(cluster, household) == {}


def test_one_without_an_entry_is_dead(household: Household):
    assert household.dead({"somebody"}) == {"somebody"}


def test_nobody_takes_himself_for_dead(household: Household):
    assert household.dead({household.placement}) == set()


def test_one_whose_process_lives_is_not_dead(cluster: FakeCluster, household: Household):
    other = Household(cluster, "sqlite:///music")
    other.owner()
    assert household.dead({other.placement}) == set()


def test_one_whose_process_is_known_to_be_gone_is_dead_at_once(cluster: FakeCluster, household: Household):
    household.owner()
    process = ProcessIdentity.current().model_copy(update={"pid": 2**22 + os.getpid()})
    entry = json.dumps({"beat": "b", "process": process.model_dump(mode="json")})
    cluster.change("ConfigMap", household.name, {"data": {"other": entry}})
    assert household.dead({"other"}) == {"other"}


@pytest.mark.parametrize("entry", ["", "{}", "no JSON", '{"process": 4}'])
def test_an_entry_that_cannot_be_read_is_given_time(cluster: FakeCluster, household: Household, entry: str):
    household.owner()
    cluster.change("ConfigMap", household.name, {"data": {"other": entry}})
    assert household.dead({"other"}) == set()


def test_the_selector_names_the_database_and_the_placement():
    chosen = placement_selector("sqlite:///music", "abc").split(",")
    assert "lancegpu.dev/placement=abc" in chosen
    assert len(chosen) == 3


def test_each_beat_tells_which_others_have_an_entry(cluster: FakeCluster, household: Household):
    household.owner()
    assert household.others == set()
    other = Household(cluster, "sqlite:///music")
    other.owner()
    household.beat()
    assert (household.others, other.others) == ({other.placement}, {household.placement})
