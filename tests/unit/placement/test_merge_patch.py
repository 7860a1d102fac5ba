from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lancegpu_sql.placement.merge_patch import merged


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        # The examples of RFC 7386 that concern mappings.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_it_is_a_json_merge_patch(document: Any, patch: Any, result: Any) -> None:
    assert merged(document, patch) == result


def test_containers_are_matched_by_their_name() -> None:
    document = {"containers": [{"name": "worker", "image": "a", "env": [{"name": "X", "value": "1"}]}]}
    patch = {"containers": [{"name": "worker", "image": "b", "env": [{"name": "Y", "value": "2"}]}, {"name": "beside"}]}
    assert merged(document, patch) == {
        "containers": [
            {"name": "worker", "image": "b", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "beside"},
        ]
    }


def test_mounts_are_matched_by_where_they_are() -> None:
    document = {"volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]}
    patch = {"volumeMounts": [{"mountPath": "/b", "readOnly": True}]}
    assert merged(document, patch)["volumeMounts"][1] == {"name": "a", "mountPath": "/b", "readOnly": True}


def test_nothing_that_was_given_is_changed() -> None:
    document = {"containers": [{"name": "worker", "a": {"b": 1}}]}
    before = deepcopy(document)
    merged(document, {"containers": [{"name": "worker", "a": {"b": None}}]})
    assert document == before
