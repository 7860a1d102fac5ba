"""What stands behind a 403: the same words from the server, and many causes."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster, forbidden

from lancegpu_sql.errors import ClusterForbidden, InvalidPlacement
from lancegpu_sql.placement.kubernetes.refusal import explain, is_for_lack_of_quota

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "w"},
    "spec": {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
}


def naming(**names: str) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **names}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def quota(cluster: FakeCluster, used: str) -> None:
    amounts = {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": used}}
    cluster.add("ResourceQuota", "few", status=amounts)


def test_a_quota_that_has_no_room_for_the_pod_is_the_reason(cluster: FakeCluster):
    quota(cluster, "3")
    assert is_for_lack_of_quota(cluster, POD, forbidden())


def test_a_quota_with_room_is_not(cluster: FakeCluster):
    quota(cluster, "2")
    assert not is_for_lack_of_quota(cluster, POD, forbidden("exceeded quota, says a webhook"))


def test_who_may_not_read_quotas_goes_by_the_servers_words(cluster: FakeCluster):
    cluster.lasting["list", "ResourceQuota"] = forbidden()
    assert is_for_lack_of_quota(cluster, POD, forbidden("exceeded quota: few"))
    assert not is_for_lack_of_quota(cluster, POD, forbidden("violates PodSecurity"))


def test_a_missing_right_is_named_with_its_verb(cluster: FakeCluster):
    cluster.rights = lambda verb, resource: False
    error = explain(cluster, POD, forbidden())
    assert isinstance(error, ClusterForbidden)
    assert "the verb create on pods" in error.message


def refused(resource: str) -> ClusterForbidden:
    return ClusterForbidden("forbidden", status=403, said="the server's words", verb="create", resource=resource)


def test_the_right_that_is_missing_is_that_of_the_call_which_was_refused(cluster: FakeCluster):
    cluster.rights = lambda verb, resource: resource != "secrets"
    error = explain(cluster, POD, refused("secrets"))
    assert isinstance(error, ClusterForbidden)
    assert "the verb create on secrets there (the server's words)" in error.message


@pytest.mark.parametrize("key", ["secrets", "count/secrets"])
def test_a_quota_of_secrets_is_the_reason_where_a_secret_was_refused(cluster: FakeCluster, key: str):
    cluster.add("ResourceQuota", "objects", status={"hard": {key: "5"}, "used": {key: "5"}})
    assert is_for_lack_of_quota(cluster, POD, refused("secrets"))
    assert not is_for_lack_of_quota(cluster, POD, refused("configmaps"))


def test_a_full_quota_is_not_waited_for_by_who_may_not_make_a_secret_at_all(cluster: FakeCluster):
    cluster.add("ResourceQuota", "objects", status={"hard": {"secrets": "5"}, "used": {"secrets": "5"}})
    cluster.rights = lambda verb, resource: resource != "secrets"
    assert not is_for_lack_of_quota(cluster, POD, refused("secrets"))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("serviceAccountName", "ServiceAccount"),
        ("priorityClassName", "PriorityClass"),
        ("runtimeClassName", "RuntimeClass"),
    ],
)
def test_what_the_pod_names_and_is_not_there_is_told(cluster: FakeCluster, key: str, kind: str):
    error = explain(cluster, naming(**{key: "gold"}), forbidden())
    assert isinstance(error, InvalidPlacement)
    assert f"no {kind} 'gold'" in error.message


def test_what_is_there_is_not_blamed(cluster: FakeCluster):
    cluster.add("PriorityClass", "gold")
    error = explain(cluster, naming(priorityClassName="gold"), forbidden("violates PodSecurity"))
    assert "violates PodSecurity" in error.message


def test_without_the_right_to_look_the_servers_words_must_do(cluster: FakeCluster):
    cluster.lasting["get", "RuntimeClass"] = forbidden()
    error = explain(cluster, naming(runtimeClassName="gvisor"), forbidden("pod rejected"))
    assert "pod rejected" in error.message
