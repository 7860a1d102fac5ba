"""An API server that is only a dictionary: it keeps what it is given, tells who watches, and refuses what it is told to."""

from __future__ import annotations

import copy
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, PlacementError
from lancegpu_sql.placement.kubernetes.api import KINDS
from lancegpu_sql.placement.merge_patch import merged

PATIENCE_SECONDS = 20.0

Object = dict[str, Any]


def forbidden(said: str = "no") -> ClusterForbidden:
    """What the client makes of 403."""
    return ClusterForbidden(f"forbidden: {said}", status=403, said=said)


def refused(status: int, said: str = "no") -> ClusterRefused:
    """What the client makes of another refusal."""
    return ClusterRefused(f"refused: {said}", status=status, said=said)


class Stream:
    """One watch: events until it is closed."""

    def __init__(self, kind: str, everything: Callable[[Object], bool]) -> None:
        self.kind, self.everything = kind, everything
        self._events: queue.SimpleQueue[Object | None] = queue.SimpleQueue()

    def put(self, event: Object | None) -> None:
        """Hand an event out."""
        self._events.put(event)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._events.get, None)

    def close(self) -> None:
        """End it."""
        self._events.put(None)


class FakeCluster:
    """Offers what `Cluster` does.

    `calls` are (verb, kind, name), in their order. `troubles` are looked at before each call: one for (verb, kind) is
    raised, and is gone, unless it stands in `lasting`.
    """

    inside = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.troubles: dict[tuple[str, str], list[PlacementError]] = {}
        self.lasting: dict[tuple[str, str], PlacementError] = {}
        self.rights: Callable[[str, str], bool] = lambda verb, resource: True
        self.changed = threading.Condition()
        self.printed = ""
        self.deaf = False  # whoever watches is told nothing
        self._objects: dict[tuple[str, str], Object] = {}
        self._streams: list[Stream] = []
        self._numbers = itertools.count(1)

    def create(self, kind: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        name = body["metadata"]["name"]
        self._note("create", kind, name)
        with self.changed:
            if (kind, name) in self._objects:
                raise refused(409, "it exists")
            made = copy.deepcopy(dict(body))
            made["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "namespace": "work"}
            if not dry_run:
                self._keep(kind, name, made, "ADDED")
            return copy.deepcopy(made)

    def get(self, kind: str, name: str) -> Object | None:
        self._note("get", kind, name)
        return self.find(kind, name)

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> Object | None:
        self._note("patch", kind, name)
        return self.change(kind, name, body)

    def delete(self, kind: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None) -> bool:
        self._note("delete", kind, name)
        return self.remove(kind, name)

    def delete_all(self, kind: str, labels: str) -> None:
        self._note("delete_all", kind, labels)
        for found in self.objects(kind, labels):
            self.remove(kind, found["metadata"]["name"])

    def list(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> tuple[list[Object], str]:
        self._note("list", kind, "")
        return self.objects(kind, labels), "1"

    def pages(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Iterator[tuple[list[Object], str]]:
        yield self.list(kind, labels=labels, fields=fields, everywhere=everywhere)

    def watch(
        self, kind: str, resource_version: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Stream:
        self._note("watch", kind, "")
        stream = Stream(kind, lambda found: _carries(found, labels))
        with self.changed:
            self._streams.append(stream)
            # What came between the list and the watch is told again: nothing is missed.
            for found in self.objects(kind, labels):
                stream.put({"type": "MODIFIED", "object": found})
        return stream

    def can_i(self, verb: str, resource: str, *, everywhere: bool = False) -> bool:
        self._note("review", resource, "")
        return self.rights(verb, resource)

    def log(self, pod: str, lines: int) -> str:
        self._note("log", "Pod", pod)
        return self.printed

    # What a test does behind the back of whoever calls.

    def find(self, kind: str, name: str) -> Object | None:
        """An object, uncounted."""
        with self.changed:
            return copy.deepcopy(self._objects.get((kind, name)))

    def objects(self, kind: str, labels: str = "") -> list[Object]:
        """All objects of a kind, uncounted."""
        with self.changed:
            return [
                copy.deepcopy(one) for (of, _), one in self._objects.items() if of == kind and _carries(one, labels)
            ]

    def add(self, kind: str, name: str, **more: Any) -> None:
        """Put an object there."""
        with self.changed:
            metadata = {"name": name, "uid": f"uid-{next(self._numbers)}", **more.pop("metadata", {})}
            self._keep(kind, name, {"metadata": metadata, **more}, "ADDED")

    def change(self, kind: str, name: str, body: Mapping[str, Any]) -> Object | None:
        """Merge a change into an object."""
        with self.changed:
            if (kind, name) not in self._objects:
                return None
            self._keep(kind, name, merged(self._objects[kind, name], body), "MODIFIED")
            return self.find(kind, name)

    def remove(self, kind: str, name: str) -> bool:
        """Take an object away."""
        with self.changed:
            found = self._objects.pop((kind, name), None)
            if found is not None:
                self._tell(kind, found, "DELETED")
            return found is not None

    def forget_history(self) -> None:
        """End all watches, and let none go on where it ended."""
        with self.changed:
            streams, self._streams = self._streams, []
        for stream in streams:
            stream.put({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
            stream.close()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds of what is kept here."""
        with self.changed:
            assert self.changed.wait_for(lambda: bool(holds()), PATIENCE_SECONDS)

    def count(self, verb: str, kind: str) -> int:
        """How many such calls there were."""
        with self.changed:
            return sum(call[:2] == (verb, kind) for call in self.calls)

    def _note(self, verb: str, kind: str, name: str) -> None:
        assert kind in KINDS or verb == "review"
        with self.changed:
            self.calls.append((verb, kind, name))
            self.changed.notify_all()
            if (verb, kind) in self.lasting:
                raise self.lasting[verb, kind]
            if self.troubles.get((verb, kind)):
                raise self.troubles[verb, kind].pop(0)

    def _keep(self, kind: str, name: str, obj: Object, event: str) -> None:
        obj["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._objects[kind, name] = obj
        self._tell(kind, obj, event)

    def _tell(self, kind: str, obj: Object, event: str) -> None:
        self.changed.notify_all()
        for stream in () if self.deaf else self._streams:
            if stream.kind == kind and stream.everything(obj):
                stream.put({"type": event, "object": copy.deepcopy(obj)})


def _carries(obj: Object, labels: str) -> bool:
    wanted = dict(one.split("=", 1) for one in labels.split(",")) if labels else {}
    return wanted.items() <= obj["metadata"].get("labels", {}).items()
