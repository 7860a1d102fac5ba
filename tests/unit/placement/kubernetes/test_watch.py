"""A watch: what it tells, where it goes on, what ends it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lancegpu_sql.errors import ClusterForbidden, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.watch import Watch

PATIENCE_SECONDS = 20


def obj(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"uid": name, "name": name, "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": obj(name, version)}


GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
END = object()


class FakeStream:
    """Events that the test puts in, until `END` or an error."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (one := self.events.get(timeout=PATIENCE_SECONDS)) is not END:
            if isinstance(one, Exception):
                raise one
            yield one

    def close(self) -> None:
        self.events.put(END)


class FakeCluster:
    """Lists what it is told to, and hands out one stream for each watch."""

    def __init__(self) -> None:
        self.lists: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.watched: queue.SimpleQueue[tuple[str, FakeStream]] = queue.SimpleQueue()

    def list(self, kind: str, **_: Any) -> tuple[list[dict[str, Any]], str]:
        answer = self.lists.get(timeout=PATIENCE_SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pages(self, kind: str, **_: Any) -> Iterator[tuple[list[dict[str, Any]], str]]:
        yield self.list(kind)

    def watch(self, kind: str, resource_version: str, **_: Any) -> FakeStream:
        stream = FakeStream()
        self.watched.put((resource_version, stream))
        return stream


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def changed(self, uid: str, obj: dict[str, Any] | None) -> None:
        self.told.put((uid, obj is not None))

    def listed(self) -> None:
        self.told.put("listed")

    def troubled(self, problem: PlacementError | None) -> None:
        if problem is not None:
            self.told.put(type(problem))

    def next(self) -> Any:
        return self.told.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(cluster: FakeCluster, heard: Heard) -> Iterator[Watch[str]]:
    watching = Watch(cluster, "Pod", lambda one: str(one["metadata"]["name"]), heard)  # type: ignore[arg-type]
    watching.start()
    yield watching
    watching.stop()
    cluster.lists.put(([], "0"))


@pytest.fixture
def stream(cluster: FakeCluster, heard: Heard, watch: Watch[str]) -> FakeStream:
    """A watch from version 5 on, that has seen one pod."""
    cluster.lists.put(([obj("a", 3)], "5"))
    version, stream = cluster.watched.get(timeout=PATIENCE_SECONDS)
    assert (version, heard.next(), heard.next()) == ("5", ("a", True), "listed")
    return stream


def test_a_watch_does_nothing_before_it_is_started(cluster: FakeCluster, heard: Heard):
    """Whoever keeps it looks at it when told of a change: it must have it by then."""
    Watch(cluster, "Unstarted", dict, heard)  # type: ignore[arg-type]
    assert "lancegpu-watch-unstarted" not in {thread.name for thread in threading.enumerate()}


def test_changes_are_told_as_they_come(heard: Heard, stream: FakeStream, watch: Watch[str]):
    stream.events.put(event("ADDED", "b", 6))
    stream.events.put(event("DELETED", "a", 7))
    assert [heard.next(), heard.next()] == [("b", True), ("a", False)]
    assert watch.objects == ("b",)


def test_a_watch_that_ends_goes_on_from_its_last_bookmark(cluster: FakeCluster, stream: FakeStream):
    stream.events.put(event("BOOKMARK", "", 9))
    stream.events.put(END)
    assert cluster.watched.get(timeout=PATIENCE_SECONDS)[0] == "9"


def test_a_connection_that_breaks_is_told_and_taken_up_again(cluster: FakeCluster, heard: Heard, stream: FakeStream):
    stream.events.put(ClusterUnreachable("gone", retry_after_seconds=0.0))
    assert heard.next() is ClusterUnreachable
    assert cluster.watched.get(timeout=PATIENCE_SECONDS)[0] == "5"


def test_after_a_version_that_is_too_old_what_vanished_meanwhile_is_told(
    cluster: FakeCluster, heard: Heard, stream: FakeStream
):
    stream.events.put(GONE)
    cluster.lists.put(([obj("b", 20)], "21"))
    assert [heard.next(), heard.next(), heard.next()] == [("a", False), ("b", True), "listed"]
    assert cluster.watched.get(timeout=PATIENCE_SECONDS)[0] == "21"


def test_what_may_not_be_read_is_out_of_sight_and_told(cluster: FakeCluster, heard: Heard, watch: Watch[str]):
    cluster.lists.put(ClusterForbidden("no", status=403))
    assert heard.next() is ClusterForbidden
    assert watch.forbidden is not None
    assert watch.synced


def test_a_stopped_watch_watches_no_more(cluster: FakeCluster, stream: FakeStream, watch: Watch[str]):
    watch.stop()
    watch._thread.join(PATIENCE_SECONDS)
    assert cluster.watched.empty()
